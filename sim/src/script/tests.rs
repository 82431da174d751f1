use std::path::{Path, PathBuf};

use super::{Family, run, run_as};

const OPENING: &str = "
   0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
  +0 bind(3, ..., ...) = 0
  +0 listen(3, 1) = 0
+0.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
  +0 > S. 0:0(0) ack 1 <...>
+0.1 < . 1:1(0) ack 1 win 257
  +0 accept(3, ..., ...) = 4
";

fn script(rest: &str) -> Result<(), String> {
    run(&format!("{OPENING}{rest}"))
}

#[test]
fn a_true_script_passes() {
    script("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n+.1 < . 1:1(0) ack 1001 win 257").expect("it passes");
}

#[test]
fn what_is_not_so_is_found() {
    for (wrong, part) in [
        ("+0 write(4, ..., 1000) = 999", "got 1000"),
        ("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1002(1001) ack 1", "expected P. 1:1002(1001)"),
        ("+0 > . 1:1(0) ack 1", "no packet came"),
        ("+0 write(4, ..., 10) = 10\n+.1 > P. 1:11(10) ack 1", "it came at"),
        ("+0 %{ assert tcpi_state == 7 }%", "tcpi_state is 1"),
        ("+0 read(4, ..., 10) = 10", "it blocks"),
        ("+0...0.1 read(4, ..., 10) = 10", "never returned"),
        ("+0 frobnicate(4) = 0", "not known"),
        ("+0 getsockopt(4, IPPROTO_TCP, TCP_NODELAY, [1], [4]) = 0", "expected the option"),
    ] {
        let error = script(wrong).expect_err(wrong);
        assert!(error.contains(part), "{wrong}: {error}");
    }
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for wrong in ["+0 < Q 0:0(0)", "+0 < S 0:0", "+x socket() = 3", "+0 `never ends", "+0 > . 1:1(0) ack", "%{"] {
        assert!(run(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn assertions_are_pythons() {
    script("+0 %{ assert 1 < 2 <= 2 and not 3 == 4, tcpi_state\nassert tcpi_snd_cwnd == 2 * 5 and (tcpi_state & 1) }%")
        .expect("true");
    for wrong in ["assert 3 < 2 < 4", "assert 1 / 0", "assert nobody == 1", "assert (1"] {
        assert!(script(&format!("+0 %{{ {wrong} }}%")).is_err(), "{wrong}");
    }
}

fn collect(folder: &Path, scripts: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the scripts are here") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, scripts);
        } else if path.extension().is_some_and(|ending| ending == "pkt") {
            scripts.push(path);
        }
    }
}

/// Our own scripts hold over each family.
#[test]
fn our_scripts_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    let mut scripts = Vec::new();
    collect(&root, &mut scripts);
    assert!(scripts.len() > 100, "{} scripts", scripts.len());
    let mut failed = Vec::new();
    for script in scripts {
        let text = std::fs::read_to_string(&script).expect("a text");
        for family in [Family::Ipv4, Family::Mapped, Family::Ipv6] {
            if let Err(what) = run_as(&text, family) {
                failed.push(format!("{family:?} {}:{what}", script.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
