//! Runs every target over its seeds and a few thousand seeded mutations of them, without cargo-fuzz.

use std::fs;
use std::path::Path;

use ringway_fuzz_targets::{TARGETS, run};

/// Number of mutations of each target; fewer for the one that makes workers and threads for each input.
fn mutations(target: &str) -> u64 {
    if target == "groups" { 150 } else { 3_000 }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    let all: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect();
    assert!(!all.is_empty(), "{target} has no seeds");
    all
}

/// Applies a few changes: bytes, runs of bytes, pieces of another seed.
fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.number() as u8,
            2 => {
                let count = random.below(9);
                bytes.splice(at..at, (0..count).map(|_| random.number() as u8));
            }
            3 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ if at + 4 <= bytes.len() => {
                let value = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX][random.below(5)];
                bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            _ => {}
        }
    }
    bytes
}

/// Prints the input when the target panics; the panic's own message follows.
struct Culprit<'a>(&'a str, &'a [u8]);

impl Drop for Culprit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("target {} on {:02x?}", self.0, self.1);
        }
    }
}

fn smoke(target: &str) {
    let seeds = seeds(target);
    let try_it = |bytes: &[u8]| {
        let _culprit = Culprit(target, bytes);
        run(target, bytes);
    };
    try_it(&[]);
    seeds.iter().for_each(|seed| try_it(seed));
    let mut random = Random(target.bytes().map(u64::from).sum());
    (0..mutations(target)).for_each(|_| try_it(&mutate(&mut random, &seeds)));
}

macro_rules! smokes {
    ($($target:ident)*) => {
        $(#[test] fn $target() { smoke(stringify!($target)); })*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [$(stringify!($target)),*]);
        }
    };
}

smokes!(frames tcp_options segments handover reassembly fragments script channel groups control netlink firewall config capture);
