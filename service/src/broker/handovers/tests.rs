use super::*;

#[test]
fn a_tool_asks_to_leave_or_to_end() {
    assert_eq!(asked("port 80"), Some(Asked::Leave(Wanted::Port(80))));
    assert_eq!(asked("kill port 80"), Some(Asked::End(Wanted::Port(80))));
    assert_eq!(asked("back port 80"), Some(Asked::Return(Wanted::Port(80))));
    for nonsense in ["kill", "kill ", "kill kill port 80", "killport 80", "kill everything", "back", "back kill port 80"] {
        assert_eq!(asked(nonsense), None, "{nonsense}");
    }
}

#[test]
fn sockets_are_named_in_four_ways() {
    let flow = Wanted::Flow("10.0.0.1:80".parse().expect("one"), "[fd00::2]:9".parse().expect("one"));
    assert_eq!(wanted("all"), Some(Wanted::All));
    assert_eq!(wanted("pid 4711"), Some(Wanted::Process(4711)));
    assert_eq!(wanted("port 80"), Some(Wanted::Port(80)));
    assert_eq!(wanted("flow 10.0.0.1:80 [fd00::2]:9"), Some(flow));
    for nonsense in
        ["", "everything", "all of it", "pid", "pid -1", "pid 99999999999", "port 70000", "flow 10.0.0.1:80", "flow a b"]
    {
        assert_eq!(wanted(nonsense), None, "{nonsense}");
    }
}
