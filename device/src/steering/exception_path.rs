//! How many packets of owned ports the kernel may get in a second, where such packets are its own at all: see `kernel_flows`.
//!
//! ```text
//!   map[0] = the second, by the kernel's clock   map[1] = packets of it   map[2] = packets dropped so far   map[3] = the most; 0: no bound
//! ```
//! The programs count. Processors do so side by side: at the turn of a second a few packets may pass that are not counted. Does not do: telling
//! packets of connections apart from others; TCP repeats what is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::assembler::{Assembler, Helper, Label, R0, R1, R2, R8, R9, R10, When, Width};
use super::sys;

const SECOND: u32 = 0;
const PACKETS: u32 = 1;
const DROPPED: u32 = 2;
const MOST: u32 = 3;
const ENTRIES: u32 = 4;

/// A second is so many bits of nanoseconds: the programs need no division.
const SECOND_BITS: u32 = 30;

/// See the module's text.
#[derive(Debug)]
pub struct ExceptionPath {
    map: OwnedFd,
}

impl ExceptionPath {
    pub(super) fn new() -> io::Result<ExceptionPath> {
        Ok(ExceptionPath { map: sys::create_map(sys::MapKind::Array, 4, ENTRIES)? })
    }

    /// The map, for a program.
    pub(super) fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// From now on the kernel gets at most so many packets a second; 0: all.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the map exists.
    pub fn set_most(&self, packets_per_second: u32) -> io::Result<()> {
        let most = (u64::from(packets_per_second) << SECOND_BITS).div_ceil(1_000_000_000);
        sys::update(self.map.as_fd(), &MOST.to_ne_bytes(), u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Packets that were dropped so far, modulo 2^32.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the map exists.
    pub fn dropped(&self) -> io::Result<u32> {
        Ok(sys::look_up(self.map.as_fd(), &DROPPED.to_ne_bytes())?.unwrap_or_default())
    }
}

/// Jumps to `passes` or `dropped` with a packet that is the kernel's. `key`: four bytes of the program's stack that nothing else needs. Loses
/// all registers but `R6` and `R7`.
pub(super) fn count_packet(asm: &mut Assembler, map: BorrowedFd<'_>, key: i16, passes: Label, dropped: Label) {
    let (same, over) = (asm.label(), asm.label());
    // `R0` = the address of an entry.
    let find = |asm: &mut Assembler, entry: u32| {
        asm.store_value(Width::Word, R10, key, entry as i32).load_map(R1, map).copy(R2, R10).add(R2, i32::from(key));
        asm.call(Helper::MapLookup).jump_if(When::Equal, R0, 0, passes);
    };
    find(asm, MOST);
    asm.load(Width::Word, R8, R0, 0).jump_if(When::Equal, R8, 0, passes);
    asm.call(Helper::Clock).copy(R9, R0).shift_right(R9, SECOND_BITS as i32);
    find(asm, SECOND);
    asm.load(Width::Word, R1, R0, 0).jump_if_register(When::Equal, R1, R9, same).store(Width::Word, R0, 0, R9);
    find(asm, PACKETS);
    asm.store_value(Width::Word, R0, 0, 0);
    asm.place(same);
    find(asm, PACKETS);
    asm.set(R1, 1).atomic_add(Width::Word, R0, 0, R1).load(Width::Word, R1, R0, 0);
    asm.jump_if_register(When::Greater, R1, R8, over).jump(passes).place(over);
    find(asm, DROPPED);
    asm.set(R1, 1).atomic_add(Width::Word, R0, 0, R1).jump(dropped);
}
