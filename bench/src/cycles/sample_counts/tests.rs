use super::super::script;
use super::*;

/// Process 9 is perf, 10 measures; 11 is its server, 12 the server's child; 99 is unrelated.
const TEXT: &str = "\
x 0/0 [000] PERF_RECORD_FORK(10:10):(9:9)
x 0/0 [000] PERF_RECORD_FORK(10:13):(10:10)
x 0/0 [000] PERF_RECORD_FORK(11:11):(10:10)
x 0/0 [000] PERF_RECORD_FORK(12:12):(11:11)
x 0/0 [000] PERF_RECORD_FORK(99:99):(1:1)
server 11/11 [001]
\tf rep_movs_alternative ([kernel.kallsyms])
server 12/12 [001]
\tf tcp_sendmsg ([kernel.kallsyms])
server 12/12 [001]
\tf tcp_sendmsg ([kernel.kallsyms])
server 12/12 [001]
\tf zz9_unheard_of ([kernel.kallsyms])
ringway 10/10 [001]
\tf tcp_sendmsg ([kernel.kallsyms])
rustc 99/99 [001]
\tf main (/usr/bin/rustc)
swapper 0/0 [001]
\tf pv_native_safe_halt ([kernel.kallsyms])
ksoftirqd/0 15/15 [000]
\tf process_backlog ([kernel.kallsyms])
";

fn counts() -> SampleCounts {
    let (mut counts, table) = (SampleCounts::new(9), Table::load());
    script::read(&mut TEXT.as_bytes(), &mut |event| counts.take(event, &table)).expect("memory can be read");
    counts
}

#[test]
fn samples_of_the_measured_family_are_counted_by_core_and_class() {
    let counts = counts();
    let core = &counts.cores[&1];
    assert_eq!((core.busy(), core.idle, core.foreign, core.unmapped), (4, 1, 2, 1));
    assert_eq!((core.share(Class::TcpIp), core.share(Class::DataCopy), core.unmapped_share()), (50.0, 25.0, 25.0));
    assert_eq!(core.utilization().round(), 57.0);
    assert_eq!(counts.cores[&0].share(Class::Device), 100.0, "softirq threads count on their core");
    let kernel = |name: &str| format!("{name} ([kernel.kallsyms])");
    let expected = [
        ("TCP/IP", kernel("tcp_sendmsg"), 2),
        ("data copy", kernel("rep_movs_alternative"), 1),
        ("device", kernel("process_backlog"), 1),
        (UNMAPPED, kernel("zz9_unheard_of"), 1),
    ];
    let found: Vec<(&str, String, u64)> =
        counts.functions(4).into_iter().map(|(class, name, seen)| (class, name.to_string(), seen)).collect();
    assert_eq!(found, expected);
}

#[test]
fn cores_add_up_and_nothing_is_divided_by_nothing() {
    assert_eq!(counts().whole().busy(), 5);
    let empty = Core::default();
    assert_eq!((empty.utilization(), empty.share(Class::Lock), empty.unmapped_share()), (0.0, 0.0, 0.0));
}
