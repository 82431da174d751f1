use super::*;

const FILE: &str = "\
# A file as mTCP's examples have it.
io = dpdk
num_cores = 2
max_concurrency = 10000   # for each core
port = dpdk0 dpdk1
rcvbuf = 8192
tcp_timeout = 30
tcp_timewait=0
";

#[test]
fn a_file_is_read_and_what_has_no_effect_is_named_once() {
    let mut settings = Settings::new();
    let ignored = settings.read(&format!("{FILE}port = eth1\n"), 4).expect("it is right");
    assert_eq!((settings.conf.num_cores, settings.conf.max_concurrency), (2, 10_000));
    let names: Vec<&str> = ignored.iter().map(|named| named.split(' ').next().expect("it has a key")).collect();
    assert_eq!(names, ["io", "port", "rcvbuf", "tcp_timeout", "tcp_timewait"]);
}

#[test]
fn a_mistake_names_its_line() {
    for (line, part) in [
        ("num_cores = 5", "between 1 and 4"),
        ("num_cores = many", "not a number"),
        ("max_concurrency = 0", "between"),
        ("rcvbuf 63", "between"),
        ("num_cores", "no value"),
        ("colour = red", "no key"),
    ] {
        let error = Settings::new().read(line, 4).expect_err(line);
        assert!(error.contains(part) && error.contains(line.split(' ').next().expect("it has a key")), "{error}");
    }
}

#[test]
fn the_cores_that_a_program_has_set_are_stronger_than_the_files() {
    let mut settings = Settings::new();
    (settings.conf.num_cores, settings.has_cores) = (1, true);
    settings.read(FILE, 4).expect("it is right");
    assert_eq!(settings.conf.num_cores, 1);
}
