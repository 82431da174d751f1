use super::*;

fn told() -> Vec<Told> {
    let group = Holder::Group { region: 3, uid: 4_294_967_294, pid: 4_194_304, program: "x\u{1b}[2Jyz\n".into() };
    let full = QuotaRecord { used: Some(131_072), limit: Some(131_072), hits: u64::MAX };
    let open = QuotaRecord { used: None, limit: None, hits: 0 };
    let holders = vec![
        HolderRecord { holder: Holder::Service, quotas: vec![Some(open), None] },
        HolderRecord { holder: Holder::User(1000), quotas: vec![None, None] },
        HolderRecord { holder: group, quotas: vec![None, Some(full)] },
    ];
    vec![Told { service: "web".into(), worker: 1, keys: vec!["groups".into(), "silent_connections_per_user".into()], holders }]
}

#[test]
fn the_table_fits_eighty_columns_and_says_nothing_to_the_terminal() {
    let mut out = Vec::new();
    text(&mut out, &told()).expect("a vector takes all");
    let out = String::from_utf8(out).expect("text");
    assert!(out.lines().all(|line| line.len() <= 80), "{out}");
    assert!(!out.contains('\u{1b}'), "{out:?}");
    let words: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[2], ["service", "web,", "worker", "1"]);
    assert_eq!(words[3], ["groups", "-", "-", "0"]);
    assert_eq!(words[4], ["user", "1000"]);
    assert_eq!(words[5], ["group", "4194304", "x?[2Jyz?", "of", "user", "4294967294"]);
    assert_eq!(words[6], ["silent_connections_per_user", "131072", "131072", "18446744073709551615"]);
}

#[test]
fn json_has_every_holder_with_its_quotas() {
    let all = json(&told());
    assert_eq!(all.len(), 3);
    assert_eq!(all[1]["holder"], json!({ "scope": "user", "uid": 1000 }));
    assert_eq!(all[1]["quotas"], json!([]));
    let quota = json!({ "key": "limits.silent_connections_per_user", "used": 131_072, "limit": 131_072, "hits": u64::MAX });
    assert_eq!(all[2]["quotas"], json!([quota]));
    assert_eq!((&all[2]["worker"], &all[2]["holder"]["pid"]), (&json!(1), &json!(4_194_304)));
    assert_eq!(all[0]["quotas"][0]["limit"], Value::Null);
}

/// The key names MiB, the worker tells bytes.
#[test]
fn memory_is_shown_in_the_unit_of_its_key() {
    let memory = QuotaRecord { used: Some((5 << 20) + 1), limit: Some(256 << 20), hits: 7 };
    let holders = vec![HolderRecord { holder: Holder::User(1), quotas: vec![Some(memory)] }];
    let told = [Told { service: "web".into(), worker: 0, keys: vec!["memory_per_group_mib".into()], holders }];
    let mut out = Vec::new();
    text(&mut out, &told).expect("a vector takes all");
    let out = String::from_utf8(out).expect("text");
    let last: Vec<&str> = out.lines().last().expect("a row").split_whitespace().collect();
    assert_eq!(last, ["memory_per_group_mib", "6", "256", "7"]);
    let quota = json!({ "key": "limits.memory_per_group_mib", "used": 6, "limit": 256, "hits": 7 });
    assert_eq!(json(&told)[0]["quotas"], json!([quota]));
}
