//! A role that dies, fails, answers nonsense or does not answer is an error with its stderr, never a hang.
use super::*;

fn peer(script: &str) -> Peer {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Peer::start("the role", command).expect("there is a shell")
}

fn failure(script: &str, limit: Duration) -> String {
    peer(script).wait_ready(limit).expect_err("it is not ready").to_string()
}

#[test]
fn a_role_that_dies_is_an_error_with_its_words() {
    let text = failure("echo 'no such device' >&2; exit 3", Duration::from_secs(60));
    assert!(text.contains("the role has ended (exit status: 3)") && text.contains("no such device"), "{text}");
}

#[test]
fn a_role_that_fails_or_talks_nonsense_is_an_error() {
    assert_eq!(failure(r#"echo '{"Failed":"port in use"}'; cat"#, Duration::from_secs(60)), "the role: port in use");
    assert!(failure("echo hello; cat", Duration::from_secs(60)).contains("said \"hello\""));
}

#[test]
fn a_silent_role_is_an_error_after_the_limit_and_ends_when_dropped() {
    let mut silent = peer("cat >/dev/null");
    let pid = silent.pid();
    assert!(silent.wait_ready(Duration::from_millis(1)).expect_err("silence").to_string().contains("has not answered"));
    drop(silent);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_paused_role_ends_when_dropped() {
    let mut role = peer("cat >/dev/null");
    let pid = role.pid();
    role.pause();
    assert!(role.wait_ready(Duration::from_millis(1)).is_err());
    drop(role);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn orders_arrive_as_lines() {
    let mut role = peer(r#"read order; [ "$order" = '"Release"' ] && echo '"Ready"'; cat >/dev/null"#);
    role.order(&Order::Release, Duration::from_secs(60)).expect("it is ready");
}
