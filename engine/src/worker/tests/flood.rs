//! A connection beside more SYNs than the worker takes.

use std::io;

use ringway_device::memory::{self, MemoryOptions};
use ringway_device::{Device, Middleware};
use ringway_shm::capture::{CaptureReader, CaptureWriter};
use ringway_shm::{Arena, Burst, Class, Instant};

use super::harness::{Net, pattern};
use crate::metrics::Work;

/// Fills each burst of the inner device with SYNs of one source.
struct Flooded {
    inner: Box<dyn Device>,
    arena: Arena,
}

impl Middleware for Flooded {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut *self.inner
    }

    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        Device::receive(&mut *self.inner, now, burst)?;
        while burst.packets() < 64 {
            let mut syn = [0; 54];
            (syn[12], syn[14], syn[17], syn[23], syn[47]) = (8, 0x45, 40, 6, 2);
            syn[26..34].copy_from_slice(&[10, 0, 0, 66, 10, 0, 0, 1]);
            let mut frame = self.arena.alloc(Class::Small).expect("those before are free again");
            frame.extend(syn.len()).copy_from_slice(&syn);
            burst.push(frame);
        }
        Ok(burst.packets())
    }
}

#[test]
fn a_connection_carries_its_bytes_beside_a_flood_which_is_counted() {
    let mut net = Net::between(None, |arenas| {
        let (first, second) = memory::pair(arenas[0], arenas[1], MemoryOptions::default());
        [Box::new(Flooded { inner: Box::new(first), arena: arenas[0].clone() }), Box::new(second)]
    });
    (0..100).for_each(|_| net.step());
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let (bytes, mut sent, mut got) = (pattern(200_000, 5), 0, Vec::new());
    net.run_until(|net| {
        net.write_some((1, client), &bytes, &mut sent);
        net.receive_into(0, server, &mut got);
        got.len() >= bytes.len()
    });
    assert_eq!(got, bytes);
    let metrics = &net.workers[0].core.metrics;
    assert!(metrics.value(Work::SynsDropped) > 1_000, "{}", metrics.value(Work::SynsDropped));
    assert_eq!(metrics.value(Work::DatagramsDropped), 0);

    let file = std::env::temp_dir().join(format!("ringway-flood-seen-{}", std::process::id()));
    net.workers[0].capture = Some(CaptureWriter::create(&file, 0, 100).expect("a temporary file"));
    let mut reader = CaptureReader::open(&file, None).expect("it was just made");
    (0..4).for_each(|_| net.step());
    let reason = Some(Work::SynsDropped.index_in_statistics() as u16);
    let seen = std::iter::from_fn(|| reader.next_packet()).filter(|packet| packet.drop_reason == reason).count();
    assert!(seen > 32, "{seen} dropped packets in the capture");
    std::fs::remove_file(&file).expect("the test made it");
}
