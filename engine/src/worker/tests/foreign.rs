//! Applications that write over payload while it is under way: their own streams are spoilt, and nothing else.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_device::Device;
use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_device::packet::{Packet, PacketOptions};
use ringway_shm::{Arena, Duration};

use super::harness::{Net, pattern};

/// Wires that differ in the worker's treatment of payload: it is handed on, cut, summed, or made one piece.
fn wires() -> [MemoryOptions; 5] {
    let all = MemoryOptions::offloading();
    [
        all,
        MemoryOptions { gathers: false, ..all },
        MemoryOptions { partial_checksums: false, ..all },
        MemoryOptions { segmentation_max_bytes: 0, ..all },
        MemoryOptions { segmentation_max_bytes: 0, partial_checksums: false, gathers: false, ..all },
    ]
}

/// A wire that loses, doubles, reorders and spoils packets, so that payload is sent again and waits for what is missing.
fn harm() -> Impairments {
    Impairments {
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        reorder_by: Duration::from_micros(200),
        corrupt_ppm: 5_000,
        ..Impairments::default()
    }
}

#[test]
fn a_program_that_writes_over_payload_under_way_spoils_its_own_stream_alone() {
    for (kind, options) in wires().into_iter().enumerate() {
        for harm in [None, Some(harm())] {
            let mut net = Net::impaired(options, harm);
            let hostile = [net.attach(0, [8; 16]), net.attach(1, [9; 16])];
            let listeners = [net.listen(0, 80), net.listen(hostile[0], 81)];
            let (client, scribbler) = (net.connect(1, 80), net.connect(hostile[1], 81));
            let (server, victim) = (net.accept(0, listeners[0]), net.accept(hostile[0], listeners[1]));
            let bytes = pattern(300_000, kind as u64);
            let (mut sent, mut spoilt, mut got, mut read) = (0, 0, Vec::new(), Vec::new());
            let (mut lent, mut step) = (0, 0);
            net.run_until(|net| {
                net.write_some((1, client), &bytes, &mut sent);
                net.write_some((hostile[1], scribbler), &bytes, &mut spoilt);
                step += 1;
                for app in hostile {
                    net.scribble_over_payload(app, step, 256);
                }
                lent = lent.max(net.workers[1].attachments.lent_chunks());
                net.receive_into(0, server, &mut got);
                net.receive_into(hostile[0], victim, &mut read);
                got.len() >= bytes.len() && read.len() >= bytes.len()
            });
            assert!(got == bytes, "wire {kind}, {harm:?}: the stream of others differs");
            assert!(read != bytes, "wire {kind}, {harm:?}: nothing was written over");
            assert!(lent > 0, "wire {kind}: nothing has left from where it was written");
            for (app, slot) in [(0, server), (1, client), (hostile[0], victim), (hostile[1], scribbler)] {
                net.close(app, slot);
            }
            net.run_for_ms(1_000);
            assert!(net.frames_are_all_free(), "wire {kind}, {harm:?}: a frame was lost");
        }
    }
}

/// AF_PACKET, whose system calls and rings read payload in the kernel, while another thread writes over it all the time.
#[test]
fn packet_sockets_read_payload_that_is_written_over_and_the_streams_of_others_arrive() {
    let binary = std::env::current_exe().expect("the test binary has a path");
    let arguments = ["--exact", "worker::tests::foreign::beside_packet_sockets", "--ignored", "--nocapture"];
    let output = Command::new("unshare").arg("-n").arg(binary).args(arguments).output().expect("util-linux is installed");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if text.starts_with("unshare:") {
        println!("skipped: a network namespace needs CAP_SYS_ADMIN");
        return;
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

/// The two ends of a veth pair, which carries large segments whole.
fn veth(arenas: [&Arena; 2]) -> [Box<dyn Device>; 2] {
    ip("link add left address 02:00:00:00:00:01 type veth peer name right address 02:00:00:00:00:02");
    let ends = ["left", "right"];
    ends.iter().for_each(|name| ip(&format!("link set {name} arp off up")));
    let open = |at: usize| Packet::open(ends[at], None, PacketOptions::default(), arenas[at]).expect("it was made above");
    [Box::new(open(0)), Box::new(open(1))]
}

#[test]
#[ignore = "the other process of a test in this file"]
fn beside_packet_sockets() {
    let mut net = Net::between(None, veth);
    net.leaps = false;
    let hostile = [net.attach(0, [8; 16]), net.attach(1, [9; 16])];
    let listeners = [net.listen(0, 80), net.listen(hostile[0], 81)];
    let (client, spoiler) = (net.connect(1, 80), net.connect(hostile[1], 81));
    let (server, victim) = (net.accept(0, listeners[0]), net.accept(hostile[0], listeners[1]));
    let bytes = pattern(4_000_000, 3);
    let (scribblers, is_over) = (hostile.map(|app| net.scribbler(app)), AtomicBool::new(false));
    let (mut sent, mut spoilt, mut got, mut read, mut lent, mut steps) = (0, 0, Vec::new(), Vec::new(), 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 0;
            while !is_over.load(Ordering::Relaxed) {
                seed += 1;
                scribblers.iter().for_each(|scribble| scribble(seed, 64));
            }
        });
        while (got.len() < bytes.len() || read.len() < bytes.len()) && steps < 2_000_000 {
            net.write_some((1, client), &bytes, &mut sent);
            net.write_some((hostile[1], spoiler), &bytes, &mut spoilt);
            steps += 1;
            net.scribble_over_payload(hostile[1], steps, 16);
            lent = lent.max(net.workers[1].attachments.lent_chunks());
            net.step();
            net.receive_into(0, server, &mut got);
            net.receive_into(hostile[0], victim, &mut read);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(got == bytes, "the stream of others differs: {} bytes in {steps} steps", got.len());
    assert!(read.len() == bytes.len() && read != bytes, "nothing was written over, or {} bytes in {steps} steps", read.len());
    assert!(lent > 0, "nothing has left from where it was written");
}
