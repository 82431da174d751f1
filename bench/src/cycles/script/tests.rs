use super::*;

const TEXT: &str = "\
swapper     0/0     [000] PERF_RECORD_FORK(311:311):(300:300)
ringway   311/311   [001] PERF_RECORD_COMM: ringway:311/311
process api (x)   311/312   [001] 
\tffffffff821f26e7 rep_movs_alternative ([kernel.kallsyms])
\tffffffff81000c82 tcp_sendmsg ([kernel.kallsyms])
\t         56a10fe <a::B as c::D(e)>::f ((deleted) /usr/bin/ring way)

swapper     0/0     [000] 
\tffffffff821f26e7 pv_native_safe_halt ([kernel.kallsyms])

no header at all
\t deadbeef
";

fn events(text: &str) -> Vec<Event> {
    let mut found = Vec::new();
    read(&mut text.as_bytes(), &mut |event| found.push(event)).expect("memory can be read");
    found
}

#[test]
fn forks_and_samples_come_in_order() {
    let found = events(TEXT);
    assert_eq!(found[0], Event::Fork { parent: 300, child: 311 });
    let Event::Sample(first) = &found[1] else { panic!("{:?} is no sample", found[1]) };
    assert_eq!((first.command.as_str(), first.process, first.core, first.chain.len()), ("process api (x)", 311, 1, 3));
    assert_eq!((first.chain[0].symbol.as_str(), first.chain[0].is_kernel()), ("rep_movs_alternative", true));
    assert!(!first.chain[2].is_kernel());
    let Event::Sample(second) = &found[2] else { panic!("{:?} is no sample", found[2]) };
    assert_eq!((second.process, second.core, second.chain.len()), (0, 0, 1));
    assert_eq!(found.len(), 3);
}

#[test]
fn text_that_is_none_of_perfs_gives_nothing() {
    assert_eq!(events("\n\n[]\n\u{fffd}x [y]\n\t\n 1/2 []\na PERF_RECORD_FORK(x:y):(z\n"), []);
    let endless = format!("a 1/1 [000]\n{}", "\t1 f (x)\n".repeat(10 * CHAIN_MAX));
    let Event::Sample(sample) = &events(&endless)[0] else { panic!("no sample") };
    assert_eq!(sample.chain.len(), CHAIN_MAX);
}
