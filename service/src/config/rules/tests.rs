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

/// Whether a rule leaves the process to the kernel.
fn leaves(rules: &Rules, process: &Process<'_>) -> bool {
    rules.on_process(process).is_some_and(|rule| rule.action() == Action::Kernel)
}

fn process(user: u32, cgroup: &str, program: &str) -> Process<'static> {
    Process { cgroup: Some(cgroup.to_owned()), program: Some(program.to_owned()), ..hidden(user) }
}

/// A process of which no more is known.
fn hidden(user: u32) -> Process<'static> {
    Process { user, cgroup: None, program: None, runs: &|_| None }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = right(
        "[[rule]]\naction = \"accelerate\"\nport = \"8000-8999\"\n[[rule]]\naction = \"kernel\"\nport = \"8080-9090\"\nprotocol = \"tcp\"\n",
    );
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(rules.judge_port(Transport::Tcp, ip, 8080).serves(), "the first one fits");
    assert_eq!(rules.judge_port(Transport::Tcp, ip, 9000), Verdict::Kernel(KernelReason::Rule));
    assert!(rules.judge_port(Transport::Udp, ip, 9000).serves());
    assert!(rules.judge_port(Transport::Tcp, ip, 7999).serves(), "no rule fits");
}

#[test]
fn a_port_is_decided_for_all_peers_at_once() {
    let some = right("[[rule]]\naction = \"kernel\"\npeer = \"10.1.0.0/16\"\n");
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(!some.judge_port(Transport::Tcp, ip, 80).serves(), "some peers are the kernel's");
    assert!(!some.judge_connection(at("10.0.0.1:40000"), at("10.1.2.3:80")).serves());
    assert!(some.judge_connection(at("10.0.0.1:40000"), at("10.2.2.3:80")).serves());
    let only = right("[[rule]]\naction = \"accelerate\"\npeer = \"10.1.0.0/16\"\n[[rule]]\naction = \"kernel\"\n");
    assert!(!only.judge_port(Transport::Tcp, ip, 80).serves(), "not all peers are Ringway's");
    assert!(only.judge_connection(at("10.0.0.1:40000"), at("10.1.2.3:80")).serves());
    assert!(!only.judge_connection(at("10.0.0.1:40000"), at("10.2.2.3:80")).serves());
    assert!(!only.judge_connection(at("[fd00::1]:40000"), at("[fd00::2]:80")).serves());
}

#[test]
fn processes_are_known_by_what_the_kernel_says() {
    let rules = right(
        "[[rule]]\naction = \"accelerate\"\ncgroup = \"/system.slice/nginx.service\"\n\
         [[rule]]\naction = \"kernel\"\nuser = \"1000\"\nprogram = \"a-program-of-a-long-name\"\n[[rule]]\naction = \"kernel\"\nuser = 33\n",
    );
    assert!(!leaves(&rules, &process(33, "/system.slice/nginx.service", "nginx")));
    assert!(!leaves(&rules, &process(33, "/system.slice/nginx.service/workers", "nginx")));
    assert!(leaves(&rules, &process(33, "/system.slice/nginx.service2", "nginx")), "another one");
    assert!(leaves(&rules, &process(1000, "", "a-program-of-a-")), "the kernel keeps 15 letters");
    assert!(!leaves(&rules, &process(1000, "", "other")));
    assert!(leaves(&rules, &hidden(1000)), "it could be the program");
    assert!(!leaves(&rules, &hidden(0)));
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert!(rules.judge_port(Transport::Tcp, ip, 80).serves(), "these are about processes");
}

#[test]
fn a_unit_is_a_cgroup_wherever_it_stands() {
    let rules = right("[[rule]]\naction = \"kernel\"\nunit = \"web.service\"\n");
    for (cgroup, is_in) in [
        ("/system.slice/web.service", true),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/workers", true),
        ("/system.slice/web.service2", false),
        ("/system.slice/my-web.service", false),
        ("/", false),
    ] {
        assert_eq!(leaves(&rules, &process(0, cgroup, "web")), is_in, "{cgroup}");
    }
    assert!(leaves(&rules, &hidden(0)), "it could be in it");
}

#[test]
fn a_file_is_what_the_kernel_says_that_a_process_runs() {
    let digest = "5E".repeat(32);
    let text = format!(
        "[[rule]]\naction = \"accelerate\"\npath = \"/usr/sbin/nginx\"\nsha256 = \"{digest}\"\n\
         [[rule]]\naction = \"kernel\"\npath = \"/usr/bin/curl\"\n[[rule]]\naction = \"deny\"\n user = 33\n"
    );
    let some = right(&text);
    assert!(some.names_files() && !right("[[rule]]\naction = \"kernel\"\nprogram = \"x\"\n").names_files());
    let nginx = Executable { path: PathBuf::from("/usr/sbin/nginx"), digest: Some([0x5e; 32]) };
    let decided = |runs: &dyn Fn(&Executable) -> Option<bool>| some.on_process(&Process { runs, ..hidden(33) }).map(Rule::action);
    assert_eq!(decided(&|file| Some(*file == nginx)), Some(Action::Accelerate));
    assert_eq!(decided(&|file| Some(file.path.ends_with("curl"))), Some(Action::Kernel));
    assert_eq!(decided(&|_| Some(false)), Some(Action::Deny));
    assert_eq!(decided(&|_| None), Some(Action::Kernel), "it could be curl, and is not shown to be nginx");
    let alone = rules(&format!("[[rule]]\naction = \"kernel\"\nsha256 = \"{digest}\"\n"));
    assert!(alone.expect_err("no path").contains("sha256 is of the file that path names"));
}

#[test]
fn rates_are_of_udp_too() {
    let rules =
        right("[[rule]]\naction = \"accelerate\"\nprotocol = \"udp\"\nport = 53\nrate = \"8mbit\"\ntotal_rate = \"16mbit\"\n");
    let terms = Terms { rate_max: 1_000_000, ..Terms::default() };
    assert_eq!(rules.judge_port(Transport::Udp, IpAddr::from([10, 0, 0, 1]), 53), Verdict::Serve(terms));
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, words) in [
        ("port = 80", "t.toml:1: rule: it has no action"),
        ("action = \"drop\"", "rule.action: \"drop\" is not \"accelerate\", \"kernel\" or \"deny\""),
        ("action = \"kernel\"\nport = 0", "rule.port: \"0\" is not a port"),
        ("action = \"kernel\"\nport = \"90-80\"", "rule.port"),
        ("action = \"kernel\"\npeer = \"10.0.0.0/33\"", "rule.peer"),
        ("action = \"kernel\"\npeers = \"10.0.0.0/8\"", "unknown key rule.peers; did you mean rule.peer?"),
        ("action = \"kernel\"\nuser = \"no such user\"", "rule.user"),
        ("action = \"kernel\"\nprogram = \"/bin/x\"", "rule.program"),
        ("action = \"kernel\"\nprogram = \"x\"\nport = 80", "write two rules"),
        ("action = \"kernel\"\npath = \"nginx\"", "rule.path: \"nginx\" is not the path of a file, from the root"),
        ("action = \"kernel\"\npath = \"/usr/bin/\"", "rule.path"),
        ("action = \"kernel\"\npath = \"/bin/x\"\nport = 80", "write two rules"),
        ("action = \"kernel\"\npath = \"/bin/x\"\nsha256 = \"5e\"", "rule.sha256: \"5e\" is not what sha256sum(1) prints"),
        ("action = \"kernel\"\nunit = \"x.service\"\ninterface = \"eth0\"", "write two rules"),
        ("action = \"kernel\"\nunit = \"nginx\"", "rule.unit: \"nginx\" is not a unit of systemd, such as \"nginx.service\""),
        ("action = \"kernel\"\nunit = \".service\"", "rule.unit"),
        ("action = \"kernel\"\ninterface = \"\"", "rule.interface: \"\" is not the name of an interface"),
        ("action = \"kernel\"\nnamespace = \"../blue\"", "rule.namespace: \"../blue\" is not the name of a network namespace"),
        ("action = \"kernel\"\nport = true", "rule.port: a text is wanted"),
        ("action = \"accelerate\"\nrate = \"fast\"", "rule.rate: \"fast\" is not a rate, such as \"100mbit\""),
        ("action = \"accelerate\"\nrate = \"7bit\"", "rule.rate"),
        ("action = \"accelerate\"\nrate = \"99999999999gbit\"", "rule.rate"),
        ("action = \"accelerate\"\nrate = \"ébit\"", "rule.rate"),
        ("action = \"accelerate\"\ncongestion_control = \"vegas\"", "is not \"cubic\", \"reno\" or \"bbr\""),
        ("action = \"accelerate\"\nprogram = \"x\"\nsockets = 0", "rule.sockets: \"0\" is not a number from 1 on"),
        ("action = \"accelerate\"\nport = 80\nprocesses = 2", "sockets and processes are of programs"),
        ("action = \"accelerate\"\nprotocol = \"udp\"\ncongestion_control = \"bbr\"", "congestion_control is of TCP"),
        ("action = \"kernel\"\nrate = \"1mbit\"", "only one that accelerates has terms"),
        ("action = \"deny\"\nport = 80\ntotal_rate = \"1mbit\"", "only one that accelerates has terms"),
        ("action = \"accelerate\"\ntotal_rate = 5", "rule.total_rate: \"5\" is not a rate"),
        ("action = \"deny\"\npeer = \"10.0.0.0/8\"", "protocol = \"tcp\""),
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

#[test]
fn what_is_denied_is_no_ones_and_what_is_served_has_terms() {
    let rules = right(
        "[[rule]]\naction = \"deny\"\nprotocol = \"tcp\"\npeer = \"10.9.0.0/16\"\n[[rule]]\naction = \"deny\"\nport = 23\n\
         [[rule]]\naction = \"accelerate\"\nport = \"8000-8999\"\nrate = \"8 kbit\"\ncongestion_control = \"bbr\"\n\
         [[rule]]\naction = \"accelerate\"\nprogram = \"backup\"\nrate = \"1Gbit\"\nsockets = 9\nprocesses = 3\n\
         [[rule]]\naction = \"deny\"\nuser = 33\n",
    );
    let ip: IpAddr = "10.0.0.1".parse().expect("an address");
    assert_eq!(rules.judge_connection(at("10.0.0.1:40000"), at("10.9.2.3:80")), Verdict::Deny);
    assert!(rules.judge_port(Transport::Tcp, ip, 80).serves(), "peers of a port are the packet filters' matter");
    assert_eq!(rules.judge_port(Transport::Udp, ip, 23), Verdict::Deny);
    let slow = Terms { congestion_control: Some(CongestionControl::Bbr), rate_max: 1_000, ..Terms::default() };
    assert_eq!(rules.judge_port(Transport::Tcp, ip, 8080), Verdict::Serve(slow));
    let backup = rules.on_process(&process(33, "", "backup")).expect("it fits");
    let terms = Terms { congestion_control: None, rate_max: 125_000_000, ..Terms::default() };
    assert_eq!((backup.action(), backup.allowance()), (Action::Accelerate, Allowance { terms, sockets: 9, processes: 3 }));
    assert_eq!(rules.on_process(&process(33, "", "other")).map(Rule::action), Some(Action::Deny));
}
