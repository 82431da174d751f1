use super::TRACES;

/// Every trace runs to its end: what is counted is real work.
#[test]
fn every_trace_ends() {
    for trace in TRACES {
        trace.run(3_000);
    }
}
