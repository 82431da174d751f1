use serde_json::{Value, json};

use super::{Repair, Report, Status};

fn report() -> Report {
    let mut report = Report::default();
    report.ok("kernel", "6.12".to_owned());
    report.warn("tun", "absent".to_owned(), "modprobe tun");
    report.detail("interfaces", json!({"name": "eth0"}));
    report.detail("interfaces", json!({"name": "eth1"}));
    report
}

#[test]
fn a_line_a_check_and_the_command_that_repairs_it() {
    assert_eq!(report().text(), "OK    kernel  6.12\nWARN  tun     absent\n              fix: modprobe tun\n");
}

#[test]
fn the_worst_decides() {
    let mut report = report();
    assert_eq!(report.worst(), Status::Warn);
    report.fail("rights", "none".to_owned(), "");
    assert_eq!(report.worst(), Status::Fail);
    assert_eq!(Report::default().worst(), Status::Ok);
}

#[test]
fn a_repair_is_made_once() {
    let mut report = report();
    assert_eq!(report.repairs(), []);
    for _ in 0..2 {
        report.warn("leftovers", "files".to_owned(), "ringway doctor --fix");
        report.may_repair(Repair::RemoveLeftovers);
    }
    assert_eq!(report.repairs(), [Repair::RemoveLeftovers]);
}

#[test]
fn programs_get_one_object() {
    let object: Value = serde_json::from_str(&report().json()).expect("JSON");
    assert_eq!(object["status"], "WARN");
    assert_eq!(object["checks"][1]["fix"], "modprobe tun");
    assert_eq!(object["interfaces"][1]["name"], "eth1");
}
