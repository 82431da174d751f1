use super::*;

const ROW: &str = r#"{"scenario":"conns","point":"64","target":"linux","wire":"veth","value":1000.0,"unit":"requests/s","p50_us":1.5,"p99_us":null,"server_cpu_us_per_request":null,"client_cpu_us_per_request":null,"cycles_per_request":null,"cycles_per_byte":null,"throughput_per_core":null,"retransmissions":null,"ratio":null,"noise":"quiet","machine":"m","kernel":"k","commit":"c","from_the_future":1}"#;

fn read(text: &str) -> Result<Rows, String> {
    let mut rows = Rows::default();
    rows.read_lines(Path::new("rows.jsonl"), &mut text.as_bytes()).map(|()| rows).map_err(|error| error.to_string())
}

#[test]
fn rows_are_read_and_a_later_measurement_of_the_same_point_counts() {
    let again = ROW.replace("1000.0", "2000.0");
    let other = ROW.replace("linux", "embedded");
    let rows = read(&format!("{ROW}\n\n{other}\r\n{again}")).expect("all are rows");
    let values: Vec<(&str, f64)> = rows.rows.iter().map(|row| (row.target.as_str(), row.value)).collect();
    assert_eq!((values, rows.replaced), (vec![("linux", 2000.0), ("embedded", 1000.0)], 1));
}

#[test]
fn a_line_that_is_no_row_is_named_by_file_and_line() {
    let without_target = ROW.replace(r#""target":"linux","#, "");
    let empty_target = ROW.replace("\"linux\"", "\"\"");
    let text_for_number = ROW.replace("1000.0", "\"fast\"");
    for (line, why) in [
        ("hello", "expected value"),
        ("{\"scenario\":\"conns\"", "EOF"),
        ("[1,2]", "invalid"),
        ("\u{0}", "expected value"),
        (&without_target, "missing field `target`"),
        (&empty_target, "`target` is empty"),
        (&text_for_number, "invalid type"),
        (&" ".repeat(LINE_BYTES_MAX as usize + 10), "longer than"),
    ] {
        let error = read(&format!("{ROW}\n{line}\n{ROW}\n")).expect_err(line);
        assert!(error.starts_with("rows.jsonl:2: ") && error.contains(why), "{error}");
    }
    let cut = read("\u{feff}{").expect_err("no row");
    assert!(cut.starts_with("rows.jsonl:1: "), "{cut}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Rows::default().read(Path::new("/nowhere/rows.jsonl")).expect_err("there is none").to_string();
    assert!(error.starts_with("/nowhere/rows.jsonl: "), "{error}");
}
