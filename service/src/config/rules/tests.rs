use super::super::Config;
use super::*;

fn rules(text: &str) -> Result<Rules, String> {
    Config::parse("t.toml", text, Vec::new()).map(|config| config.rules().clone()).map_err(|error| error.to_string())
}

fn right(text: &str) -> Rules {
    rules(text).expect("the rules are right")
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn process(user: u32, cgroup: &str, program: &str) -> Process {
    Process { user, cgroup: Some(cgroup.to_owned()), program: Some(program.to_owned()) }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = right(
        "[[rule]]\naction = \"accelerate\"\nport = \"8000-8999\"\n[[rule]]\naction = \"kernel\"\nport = \"8080-9090\"\nprotocol = \"tcp\"\n",
    );
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(rules.against_port(Transport::Tcp, ip, 8080).is_none(), "the first one fits");
    assert_eq!(rules.against_port(Transport::Tcp, ip, 9000).expect("the second").origin, "t.toml:4");
    assert!(rules.against_port(Transport::Udp, ip, 9000).is_none());
    assert!(rules.against_port(Transport::Tcp, ip, 7999).is_none(), "no rule fits");
}

#[test]
fn a_port_is_decided_for_all_peers_at_once() {
    let some = right("[[rule]]\naction = \"kernel\"\npeer = \"10.1.0.0/16\"\n");
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(some.against_port(Transport::Tcp, ip, 80).is_some(), "some peers are the kernel's");
    assert!(some.against_connection(at("10.0.0.1:40000"), at("10.1.2.3:80")).is_some());
    assert!(some.against_connection(at("10.0.0.1:40000"), at("10.2.2.3:80")).is_none());
    let only = right("[[rule]]\naction = \"accelerate\"\npeer = \"10.1.0.0/16\"\n[[rule]]\naction = \"kernel\"\n");
    assert!(only.against_port(Transport::Tcp, ip, 80).is_some(), "not all peers are Ringway's");
    assert!(only.against_connection(at("10.0.0.1:40000"), at("10.1.2.3:80")).is_none());
    assert!(only.against_connection(at("10.0.0.1:40000"), at("10.2.2.3:80")).is_some());
    assert!(only.against_connection(at("[fd00::1]:40000"), at("[fd00::2]:80")).is_some());
}

#[test]
fn processes_are_known_by_what_the_kernel_says() {
    let rules = right(
        "[[rule]]\naction = \"accelerate\"\ncgroup = \"/system.slice/nginx.service\"\n\
         [[rule]]\naction = \"kernel\"\nuser = \"1000\"\nprogram = \"a-program-of-a-long-name\"\n[[rule]]\naction = \"kernel\"\nuser = 33\n",
    );
    assert!(rules.against_process(&process(33, "/system.slice/nginx.service", "nginx")).is_none());
    assert!(rules.against_process(&process(33, "/system.slice/nginx.service/workers", "nginx")).is_none());
    assert!(rules.against_process(&process(33, "/system.slice/nginx.service2", "nginx")).is_some(), "another one");
    assert!(rules.against_process(&process(1000, "", "a-program-of-a-")).is_some(), "the kernel keeps 15 letters");
    assert!(rules.against_process(&process(1000, "", "other")).is_none());
    let hidden = Process { user: 1000, ..Process::default() };
    assert!(rules.against_process(&hidden).is_some(), "it could be the program");
    assert!(rules.against_process(&Process { user: 0, ..Process::default() }).is_none());
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(rules.against_port(Transport::Tcp, ip, 80).is_none(), "these are about processes");
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, words) in [
        ("port = 80", "t.toml:1: rule: it has no action"),
        ("action = \"drop\"", "rule.action: \"drop\" is not \"accelerate\" or \"kernel\""),
        ("action = \"kernel\"\nport = 0", "rule.port: \"0\" is not a port"),
        ("action = \"kernel\"\nport = \"90-80\"", "rule.port"),
        ("action = \"kernel\"\npeer = \"10.0.0.0/33\"", "rule.peer"),
        ("action = \"kernel\"\npeers = \"10.0.0.0/8\"", "unknown key rule.peers; did you mean rule.peer?"),
        ("action = \"kernel\"\nuser = \"no such user\"", "rule.user"),
        ("action = \"kernel\"\nprogram = \"/bin/x\"", "rule.program"),
        ("action = \"kernel\"\nprogram = \"x\"\nport = 80", "write two rules"),
        ("action = \"kernel\"\nport = true", "rule.port: a text is wanted"),
    ] {
        let said = rules(&format!("[[rule]]\n{text}\n")).expect_err(text);
        assert!(said.contains(words), "{text}: {said}");
    }
    assert!(rules("[rule]\naction = \"kernel\"\n").expect_err("one table").contains("[[rule]]"));
}

#[test]
fn what_is_shown_has_the_same_rules() {
    let text =
        "[[rule]]\naction = \"kernel\"\nport = \"1-1024\"\nprotocol = \"tcp\"\n[[rule]]\naction = \"accelerate\"\nuser = \"0\"\n";
    let config = Config::parse("t.toml", text, Vec::new()).expect("it is right");
    for shown in [config.show(), config.effective()] {
        let again = right(&shown);
        assert_eq!(
            again.iter().map(Rule::to_string).collect::<Vec<_>>(),
            config.rules().iter().map(Rule::to_string).collect::<Vec<_>>()
        );
    }
}
