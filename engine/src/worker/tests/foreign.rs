//! Applications that write over payload while it is under way: their own streams are spoilt, and nothing else.

use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_shm::Duration;

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
fn who_writes_over_payload_that_is_under_way_spoils_its_own_stream_alone() {
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
