use super::*;
use crate::reason::{KernelPath, KernelReason};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// A file name of this test's own, removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("ringway-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the test made it");
    }
}

pub(crate) fn socket(port: u16) -> SocketRecord {
    let endpoint = |last| Endpoint { ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port };
    SocketRecord {
        state: 1,
        datagrams: true,
        local: endpoint(1),
        remote: Endpoint { ip: "2001:db8::7".parse().expect("an address"), port: 9 },
        receive_queue: 3,
        send_queue: 4,
        interface: 0,
        pid: 77,
        uid: 1000,
        program: "nginx".into(),
        region: 5,
        slot: 6,
        congestion_control: "cubic".into(),
        info: InfoRecord { rtt_us: 123, delivery_rate: u64::MAX, ..InfoRecord::default() },
        timer: Some(TimerRecord { kind: 4, retries: 255, due: crate::Instant::from_nanos(u64::MAX - 7) }),
        memory: [1, 2, 3, 4],
        kernel: Some(KernelPath { reason: KernelReason::CgroupProgram, count: u32::MAX }),
        holders: [77, 1, u32::MAX, 0, 0, 0, 0, 8],
        descriptor: Some(u32::MAX),
    }
}

fn names<'a>(counters: &'a [&'a str]) -> Names<'a> {
    Names { counters, quotas: &["groups", "sockets_per_group"] }
}

fn holders() -> Vec<HolderRecord> {
    let groups = QuotaRecord { used: Some(2), limit: None, hits: 0 };
    let sockets = QuotaRecord { used: None, limit: Some(16), hits: u64::MAX };
    let group = Holder::Group { region: 7, uid: 1000, pid: 4711, program: "nginx".into() };
    vec![
        HolderRecord { holder: Holder::Service, quotas: vec![Some(groups), None] },
        HolderRecord { holder: Holder::User(u32::MAX), quotas: vec![None, None] },
        HolderRecord { holder: group, quotas: vec![None, Some(sockets)] },
    ]
}

/// A newer or torn file may have any number there.
#[test]
fn an_unknown_reason_is_none() {
    for (number, word) in
        [(0, None), (1, Some("firewall")), (5, Some("no-resources")), (6, Some("bulk")), (1_000, None), (u32::MAX, None)]
    {
        assert_eq!(KernelReason::of(number).map(KernelReason::word), word);
    }
}

/// What the worker writes is what a tool reads, all fields.
#[test]
fn written_is_read() {
    let file = Temporary::new("stats");
    let mut writer = StatsWriter::create(&file.0, names(&["TcpInSegs", "RingwayTurns"]), 8, 4).expect("a temporary file");
    writer.set_counters(0, &[17, 4]);
    writer.set_socket(2, Some(&socket(80)));
    writer.set_socket(3, Some(&socket(81)));
    let interface = InterfaceRecord {
        name: "veth1".into(),
        ethernet: true,
        mtu: 1500,
        mac: [2, 3, 4, 5, 6, 7],
        rx_packets: 9,
        ..Default::default()
    };
    writer.set_interface(1, &interface);
    let reader = StatsReader::open(&file.0).expect("a statistics file");
    assert_eq!(reader.counters(), [("TcpInSegs".to_string(), 17), ("RingwayTurns".to_string(), 4)]);
    assert_eq!(reader.sockets(), [socket(80), socket(81)]);
    assert_eq!(reader.interfaces(), [(1, interface)]);
    writer.set_socket(2, None);
    assert_eq!(reader.sockets(), [socket(81)]);
    assert_eq!(reader.pid(), std::process::id());
}

/// TCP_INFO survives the way through a chunk, also when it is cut short.
#[test]
fn info_travels() {
    let info = InfoRecord { state: 1, rtt_us: 7, delivery_rate: 9, ..InfoRecord::default() };
    assert_eq!(InfoRecord::from_bytes(&info.to_bytes()), info);
    assert_eq!(InfoRecord::from_bytes(&info.to_bytes()[..24]), InfoRecord { delivery_rate: 0, ..info.clone() });
    assert_eq!(InfoRecord::from_bytes(&[]), InfoRecord::default());
}

/// A record that is being written is not shown, and one that was written meanwhile is whole.
#[test]
fn a_torn_record_is_left_out() {
    let file = Temporary::new("stats-torn");
    let mut writer = StatsWriter::create(&file.0, names(&[]), 2, 0).expect("a temporary file");
    writer.set_socket(0, Some(&socket(80)));
    let reader = StatsReader::open(&file.0).expect("a statistics file");
    let sequence = &writer.map.atomics(writer.layout.sockets(), 1)[0];
    sequence.store(sequence.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    assert_eq!(reader.sockets(), []);
}

/// Files that are none of ours, or lie about their counts, are refused.
#[test]
fn foreign_files_are_refused() {
    let file = Temporary::new("stats-foreign");
    std::fs::write(&file.0, vec![0xffu8; 4096]).expect("a temporary file");
    assert_eq!(StatsReader::open(&file.0).expect_err("not ours").kind(), io::ErrorKind::InvalidData);
    let writer = StatsWriter::create(&file.0, names(&["a"]), 1, 1).expect("a temporary file");
    writer.map.atomics(header::SOCKETS, 1)[0].store(1 << 20, Ordering::Relaxed);
    assert_eq!(StatsReader::open(&file.0).expect_err("too many").kind(), io::ErrorKind::InvalidData);
}

/// Users and groups travel with what they use; a group that has gone is not shown any more.
#[test]
fn holders_travel() {
    let file = Temporary::new("stats-holders");
    let mut writer = StatsWriter::create(&file.0, names(&["a"]), 1, 4).expect("a temporary file");
    let reader = StatsReader::open(&file.0).expect("a statistics file");
    writer.set_holders(&holders());
    assert_eq!(reader.quotas(), ["groups", "sockets_per_group"]);
    assert_eq!(reader.holders(), holders());
    writer.set_holders(&holders()[..1]);
    assert_eq!(reader.holders(), holders()[..1]);
}

/// A file that lies about its holders is refused, or shows those that make sense.
#[test]
fn lies_about_holders_are_refused() {
    let file = Temporary::new("stats-lies");
    let mut writer = StatsWriter::create(&file.0, names(&[]), 1, 4).expect("a temporary file");
    writer.set_holders(&holders());
    let reader = StatsReader::open(&file.0).expect("a statistics file");
    writer.map.atomics(header::HOLDERS_USED, 1)[0].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(reader.holders(), holders(), "no more than there is room for");
    let first = writer.layout.holders() + 1;
    writer.map.atomics(first, 1)[0].store(9, Ordering::Relaxed);
    let user = first + writer.layout.holder_words() + 2;
    writer.map.atomics(user, 1)[0].store(1 << 32, Ordering::Relaxed);
    assert_eq!(reader.holders(), holders()[2..], "neither an unknown kind nor a number that is none");
    for (word, lie) in [(header::QUOTAS, u64::MAX), (header::QUOTAS, 1 << 10), (header::HOLDERS, 1 << 16)] {
        let cell = &writer.map.atomics(word, 1)[0];
        let truth = cell.swap(lie, Ordering::Relaxed);
        assert_eq!(StatsReader::open(&file.0).expect_err("too many").kind(), io::ErrorKind::InvalidData);
        cell.store(truth, Ordering::Relaxed);
    }
}
