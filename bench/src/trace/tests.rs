use super::TRACES;

/// Every trace runs to its end.
#[test]
fn every_trace_ends() {
    for trace in TRACES {
        trace.run(3_000);
    }
}
