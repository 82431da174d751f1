//! Random words over the region, at any time, by a process that has attached normally.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};

use super::Round;
use super::attach::Raw;

const PAGE: u64 = 4096;
/// Pages that are searched for content; the others are untouched zeros.
const PAGES_KNOWN: usize = 4096;
/// Words between two writes to the doorbell.
const BURST: usize = 64;

pub(super) fn play(round: &mut Round) -> io::Result<()> {
    let connection = Raw::connect(&round.socket)?;
    let token = round.token();
    connection.greet(token)?;
    let mut descriptors = connection.receive()?.into_iter();
    let (Some(region), Some(wake_fd)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::Error::other("refused"));
    };
    let region = File::from(region);
    let bytes = region.metadata()?.len();
    assert!(ftruncate(&region, bytes / 2).is_err(), "the region can be shrunk under the worker");
    let mut wake_fd = File::from(wake_fd);
    let pages = touched(&region, bytes)?;
    if round.random.number().is_multiple_of(8) {
        // Any part that the kernel removes reads as zeros.
        fallocate(&region, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes).ok();
    }
    while round.goes_on() {
        for _ in 0..BURST {
            let place = place(round, &pages, bytes);
            let word = scribble(round, &region, &pages)?;
            region.write_at(&word, place)?;
        }
        // A full doorbell would block; this one belongs to the service.
        io::Write::write(&mut wake_fd, &1u64.to_ne_bytes()).ok();
    }
    Ok(())
}

/// Returns the first pages that have content: headers, rings, slots in use.
fn touched(region: &File, bytes: u64) -> io::Result<Vec<u64>> {
    let mut pages = Vec::new();
    let mut at = 0;
    while pages.len() < PAGES_KNOWN {
        let Ok(data) = seek(region, SeekFrom::Data(at)) else { break };
        let hole = seek(region, SeekFrom::Hole(data))?;
        pages.extend((data / PAGE..hole.div_ceil(PAGE)).take(PAGES_KNOWN - pages.len()));
        at = hole;
        if at >= bytes {
            break;
        }
    }
    Ok(pages)
}

/// Draws an offset, aligned to a word; nine of ten are in pages with content.
fn place(round: &mut Round, pages: &[u64], bytes: u64) -> u64 {
    let chance = round.random.number();
    match pages.len() as u64 {
        count if count > 0 && !chance.is_multiple_of(10) => {
            pages[((chance >> 8) % count) as usize] * PAGE + (chance >> 40) % (PAGE / 4) * 4
        }
        _ => (chance >> 4) % (bytes / 4) * 4,
    }
    .min(bytes - 8)
}

/// Draws a plausible word: half of them are copies of words found elsewhere.
fn scribble(round: &mut Round, region: &File, pages: &[u64]) -> io::Result<[u8; 4]> {
    let mut word = (round.word() as u32).to_le_bytes();
    if !pages.is_empty() && round.random.number().is_multiple_of(2) {
        let from = place(round, pages, PAGE * 2);
        region.read_at(&mut word, from)?;
    }
    Ok(word)
}
