use super::*;
use crate::row::Row;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ringway-pack-test-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).expect("the temporary folder is writable");
    path
}

#[test]
fn the_same_rows_are_the_same_bytes_and_come_back() {
    let folder = folder("same");
    let row = Row {
        scenario: "conns".into(),
        target: "linux".into(),
        unit: "requests/s".into(),
        value: 1.0,
        rounds: 5,
        ..Row::default()
    };
    let rows = folder.join("a.jsonl");
    fs::write(&rows, row.to_json() + "\n").expect("written");
    let bytes = |name: &str| {
        let out = folder.join(name);
        pack(&Arguments { rows: vec![rows.clone()], out: out.clone() }).expect("packed");
        assert_eq!(rows_of(&out).expect("it has rows"), fs::read(&rows).expect("they are there"));
        fs::read(out).expect("it is there")
    };
    // The first may take longer; the machine's own facts stay.
    assert_eq!(bytes("one.tar.gz"), bytes("two.tar.gz"));
    assert!(pack(&Arguments { rows: vec![rows.clone()], out: folder.join("x.zip") }).is_err());
    assert!(rows_of(&rows).is_err(), "no archive");
    fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn the_machine_is_described_without_its_secrets() {
    let root = folder("machine");
    for (path, text) in [
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("proc/sys/net/ipv4/tcp_fastopen_key", "secret\n"),
        ("proc/sys/net/ipv4/ip_forward", "1\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
        ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some System\"\n"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(path, text).expect("written");
    }
    let text = describe(&root);
    for line in [
        "system: Some System",
        "net/ipv4/tcp_rmem: 4096 131072 6291456",
        "net/core/somaxconn: 4096",
        "devices/system/cpu/vulnerabilities/meltdown: Not affected",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(!text.contains("secret") && !text.contains("ip_forward"), "{text}");
    fs::remove_dir_all(&root).expect("ours");
}

#[test]
fn a_bundle_says_how_to_repeat_it() {
    let row = |scenario: &str, wire: &str| Row { scenario: scenario.into(), wire: wire.into(), rounds: 5, ..Row::default() };
    let rows = vec![
        row("conns", "veth"),
        row("conns", "veth"),
        row("host-single", "veth"),
        row("conns", "memory"),
        row("bulk", "network"),
    ];
    let mut read = Rows::default();
    read.rows = rows;
    let text = repeat(&read);
    let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("  ringway bench") && line.contains(">>")).collect();
    assert_eq!(
        commands,
        [
            "  ringway bench conns --rounds 5 --json >> rows.jsonl",
            "  ringway bench host single --rounds 5 --json >> rows.jsonl",
            "  ringway bench conns --wire memory --rounds 5 --json >> rows.jsonl",
            "  ringway bench bulk --peer MACHINE --rounds 5 --json >> rows.jsonl"
        ]
    );
}
