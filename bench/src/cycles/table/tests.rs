use super::super::classes::Table;
use super::super::sample_counts::SampleCounts;
use super::super::script;
use super::*;
use crate::target::Target;

const TEXT: &str = "\
x 0/0 [000] PERF_RECORD_FORK(10:10):(9:9)
x 0/0 [000] PERF_RECORD_FORK(11:11):(10:10)
server 11/11 [001]
\tf tcp_sendmsg ([kernel.kallsyms])
server 11/11 [001]
\tf zz9_unheard_of ([kernel.kallsyms])
client 11/11 [000]
\tf rep_movs_alternative ([kernel.kallsyms])
";

fn seen() -> Vec<Seen> {
    let (mut counts, table) = (SampleCounts::new(9), Table::load());
    script::read(&mut TEXT.as_bytes(), &mut |event| counts.take(event, &table)).expect("memory can be read");
    vec![Seen { target: Target::Linux, counts }]
}

#[test]
fn each_core_and_all_together_have_a_column() {
    let text = text(Load::Bulk, WireKind::Veth, &seen());
    let line = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).expect(name).split_whitespace().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(line("TCP/IP"), ["TCP/IP", "0.0", "50.0", "33.3"]);
    assert_eq!(line("data copy"), ["data", "copy", "100.0", "0.0", "33.3"]);
    assert_eq!(line("unmapped"), ["unmapped", "0.0", "50.0", "33.3"]);
}

#[test]
fn rows_name_class_core_and_target() {
    let text = rows(Load::Bulk, WireKind::Veth, &seen());
    let rows: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    assert_eq!(rows.len(), 3 * (CLASSES.len() + 1));
    let row = rows.iter().find(|row| row.point == "bulk, server's core: TCP/IP").expect("it is there");
    assert_eq!(
        (row.value, row.unit.as_str(), row.text("class"), row.text("group")),
        (50.0, "% of busy CPU", Some("TCP/IP"), Some("bulk, server's core"))
    );
}
