//! Read Documentation/bpf/btf.rst first. Numbers of the kernel's own functions, by which programs call them.
//!
//! Promises: reads the description in one pass, and trusts no length in it. Does not do: types of any other use.

use std::fs;
use std::io;

/// The kernel's description of its types.
const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const WORD: usize = 4;
/// A type begins with its name, what it is, and a size or another type.
const TYPE_WORDS: usize = 3;
const KIND_FUNCTION: u32 = 12;

/// The number of the kernel's function `name`; `None`: it has none.
///
/// # Errors
/// The kernel does not describe its types.
pub(super) fn function(name: &str) -> io::Result<Option<u32>> {
    Ok(find(&fs::read(PATH)?, name.as_bytes()))
}

fn find(btf: &[u8], name: &[u8]) -> Option<u32> {
    let header = |place: usize| word(btf, place * WORD).map(|word| word as usize);
    if btf.first_chunk().map(|magic| u16::from_ne_bytes(*magic)) != Some(MAGIC) {
        return None;
    }
    let [bytes, types_at, types_len, names_at, names_len] = [1, 2, 3, 4, 5].map(header);
    let section = |at: usize, len: usize| btf.get(bytes?.checked_add(at)?..)?.get(..len);
    let (types, names) = (section(types_at?, types_len?)?, section(names_at?, names_len?)?);
    let (mut at, mut number) = (0, 1);
    while let Some(info) = word(types, at + WORD) {
        let kind = info >> 24 & 0x1f;
        if kind == KIND_FUNCTION && name_at(names, word(types, at)? as usize) == Some(name) {
            return Some(number);
        }
        at += (TYPE_WORDS + words_behind(kind, (info & 0xffff) as usize)?) * WORD;
        number += 1;
    }
    None
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn name_at(names: &[u8], at: usize) -> Option<&[u8]> {
    names.get(at..)?.split(|byte| *byte == 0).next()
}

/// How many words follow a type of this kind with `count` parts; `None`: no kind that is known.
fn words_behind(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, names of types, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 1,
        // Arrays.
        3 => 3,
        // Enumerations, and the parameters of functions.
        6 | 13 => 2 * count,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 3 * count,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
