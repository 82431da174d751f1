//! Read RFC 9669 (the BPF instruction set) first. A small assembler: instructions in order, jumps to labels.
//!
//! Knows only the instructions that the programs here use.

use std::os::fd::{AsRawFd, BorrowedFd};

/// One encoded instruction.
pub type Instruction = u64;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

/// Result of calls, packet loads and the program.
pub const R0: Register = Register(0);
/// First argument; the context at the start.
pub const R1: Register = Register(1);
/// Second argument.
pub const R2: Register = Register(2);
/// Third argument.
pub const R3: Register = Register(3);
/// Fourth argument.
pub const R4: Register = Register(4);
/// Fifth argument.
pub const R5: Register = Register(5);
/// Kept by calls; packet loads want the context here.
pub const R6: Register = Register(6);
/// Kept by calls.
pub const R7: Register = Register(7);
/// Kept by calls.
pub const R8: Register = Register(8);
/// Kept by calls.
pub const R9: Register = Register(9);
/// The end of the stack; read-only.
pub const R10: Register = Register(10);

/// Width of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// 1 byte
    Byte = 0x10,
    /// 2 bytes
    Half = 0x08,
    /// 4 bytes
    Word = 0x00,
    /// 8 bytes; not for packet loads
    Double = 0x18,
}

/// When a jump is taken; comparisons are unsigned, over 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum When {
    /// Equal.
    Equal = 0x10,
    /// Greater.
    Greater = 0x20,
    /// Any common bit.
    AnyBit = 0x40,
    /// Not equal.
    NotEqual = 0x50,
    /// Less.
    Less = 0xa0,
}

/// A helper function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Helper {
    /// bpf_map_lookup_elem
    MapLookup = 1,
    /// bpf_ktime_get_ns
    Clock = 5,
    /// bpf_skb_load_bytes
    LoadBytes = 26,
    /// bpf_redirect_map
    RedirectMap = 51,
    /// bpf_sk_lookup_tcp
    FindTcpSocket = 84,
    /// bpf_sk_release
    ReleaseSocket = 86,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

const CLASS_LOAD: u8 = 0x00;
const CLASS_LOAD_REGISTER: u8 = 0x01;
const CLASS_STORE: u8 = 0x02;
const CLASS_STORE_REGISTER: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const MODE_ABSOLUTE: u8 = 0x20;
const MODE_INDIRECT: u8 = 0x40;
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const SOURCE_REGISTER: u8 = 0x08;
const PSEUDO_MAP_FD: Register = Register(1);
const PSEUDO_FUNCTION: Register = Register(2);

/// A program being written.
#[derive(Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// Jumps whose distance is not yet written: where they stand, and to which label.
    jumps: Vec<(usize, Label)>,
}

fn encode(opcode: u8, to: Register, from: Register, offset: i16, immediate: i32) -> Instruction {
    let registers = to.0 | from.0 << 4;
    u64::from(opcode) | u64::from(registers) << 8 | u64::from(offset as u16) << 16 | u64::from(immediate as u32) << 32
}

impl Assembler {
    fn emit(&mut self, instruction: Instruction) -> &mut Self {
        self.code.push(instruction);
        self
    }

    /// A label that stands nowhere yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// `label` stands here.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0xb0 | SOURCE_REGISTER, to, from, 0, 0))
    }

    /// `to = value`, sign-extended.
    pub fn set(&mut self, to: Register, value: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0xb0, to, R0, 0, value))
    }

    /// `to = value` as 32 bits, zero-extended.
    pub fn set_u32(&mut self, to: Register, value: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU32 | 0xb0, to, R0, 0, value))
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU64, to, R0, 0, value))
    }

    /// `to += from`
    pub fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | SOURCE_REGISTER, to, from, 0, 0))
    }

    /// `to &= value`
    pub fn and(&mut self, to: Register, value: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0x50, to, R0, 0, value))
    }

    /// `to <<= bits`
    pub fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0x60, to, R0, 0, bits))
    }

    /// `to >>= bits`, unsigned.
    pub fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0x70, to, R0, 0, bits))
    }

    /// `to ^= from`
    pub fn xor_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.emit(encode(CLASS_ALU64 | 0xa0 | SOURCE_REGISTER, to, from, 0, 0))
    }

    /// `to *= value` over 32 bits, zero-extended.
    pub fn multiply_u32(&mut self, to: Register, value: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU32 | 0x20, to, R0, 0, value))
    }

    /// `to >>= bits` over 32 bits, zero-extended.
    pub fn shift_right_u32(&mut self, to: Register, bits: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU32 | 0x70, to, R0, 0, bits))
    }

    /// `to` from the network's byte order to the machine's, over `bits` bits.
    pub fn from_network(&mut self, to: Register, bits: i32) -> &mut Self {
        self.emit(encode(CLASS_ALU32 | 0xd0 | SOURCE_REGISTER, to, R0, 0, bits))
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        self.emit(encode(CLASS_LOAD_REGISTER | MODE_MEMORY | width as u8, to, from, offset, 0))
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.emit(encode(CLASS_STORE_REGISTER | MODE_MEMORY | width as u8, to, from, offset, 0))
    }

    /// `*(to + offset) = value`
    pub fn store_value(&mut self, width: Width, to: Register, offset: i16, value: i32) -> &mut Self {
        self.emit(encode(CLASS_STORE | MODE_MEMORY | width as u8, to, R0, offset, value))
    }

    /// `*(to + offset) += from`, whatever other processors do; a word or a double one.
    pub fn atomic_add(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.emit(encode(CLASS_STORE_REGISTER | MODE_ATOMIC | width as u8, to, from, offset, 0))
    }

    /// `R0 = packet[at]` in the machine's byte order; beyond the end the program returns 0. The
    /// context must be in `R6`; `R1` to `R5` are lost.
    pub fn load_packet(&mut self, width: Width, at: i32) -> &mut Self {
        self.emit(encode(CLASS_LOAD | MODE_ABSOLUTE | width as u8, R0, R0, 0, at))
    }

    /// `R0 = packet[index + at]`; otherwise as [`load_packet`](Self::load_packet).
    pub fn load_packet_indexed(&mut self, width: Width, index: Register, at: i32) -> &mut Self {
        self.emit(encode(CLASS_LOAD | MODE_INDIRECT | width as u8, R0, index, 0, at))
    }

    /// `to` = the map.
    pub fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        self.emit(encode(CLASS_LOAD | 0x18, to, PSEUDO_MAP_FD, 0, map.as_raw_fd()));
        self.emit(encode(0, R0, R0, 0, 0))
    }

    /// Jumps to `label` when `left` compares so with `right`.
    pub fn jump_if(&mut self, when: When, left: Register, right: i32, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(encode(CLASS_JUMP | when as u8, left, R0, 0, right))
    }

    /// Jumps to `label` when `left` compares so with the register `right`.
    pub fn jump_if_register(&mut self, when: When, left: Register, right: Register, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(encode(CLASS_JUMP | when as u8 | SOURCE_REGISTER, left, right, 0, 0))
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.emit(encode(CLASS_JUMP, R0, R0, 0, 0))
    }

    /// `R0` = the helper's result; `R1` to `R5` are its arguments and are lost.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.emit(encode(CLASS_JUMP | 0x80, R0, R0, 0, helper as i32))
    }

    /// As [`call`](Self::call), of a function of the kernel's own: its number in the description of the kernel's types.
    pub fn call_function(&mut self, number: u32) -> &mut Self {
        self.emit(encode(CLASS_JUMP | 0x80, R0, PSEUDO_FUNCTION, 0, number.cast_signed()))
    }

    /// Returns `R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.emit(encode(CLASS_JUMP | 0x90, R0, R0, 0, 0))
    }

    /// The finished program.
    ///
    /// # Panics
    /// When a label that is jumped to stands nowhere, or too far away.
    pub fn finish(&mut self) -> Vec<Instruction> {
        for &(at, label) in &self.jumps {
            let target = self.labels[label.0].expect("every label that is jumped to is placed");
            let distance = i16::try_from(target as i64 - at as i64 - 1).expect("programs are short");
            self.code[at] = self.code[at] & !0xffff_0000 | u64::from(distance as u16) << 16;
        }
        std::mem::take(&mut self.code)
    }
}

#[cfg(test)]
mod tests;
