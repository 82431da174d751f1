//! Encodings agree with RFC 9669, and jumps reach their labels forwards and backwards.
use super::*;

#[test]
fn instructions_are_encoded_as_the_rfc_says() {
    let code = Assembler::default().copy(R6, R1).set(R0, -1).load(Width::Word, R2, R1, 4).exit().finish();
    assert_eq!(code[0].to_le_bytes(), [0xbf, 0x16, 0, 0, 0, 0, 0, 0]);
    assert_eq!(code[1].to_le_bytes(), [0xb7, 0x00, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(code[2].to_le_bytes(), [0x61, 0x12, 4, 0, 0, 0, 0, 0]);
    assert_eq!(code[3].to_le_bytes(), [0x95, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn jumps_count_from_the_next_instruction() {
    let mut assembler = Assembler::default();
    let (back, forth) = (assembler.label(), assembler.label());
    let code = assembler.place(back).jump_if(When::Equal, R0, 7, forth).jump(back).place(forth).exit().finish();
    assert_eq!(code[0].to_le_bytes(), [0x15, 0, 1, 0, 7, 0, 0, 0]);
    assert_eq!(code[1].to_le_bytes(), [0x05, 0, 0xfe, 0xff, 0, 0, 0, 0]);
}

#[test]
#[should_panic(expected = "is placed")]
fn a_jump_to_nowhere_is_our_mistake() {
    let mut assembler = Assembler::default();
    let nowhere = assembler.label();
    assembler.jump(nowhere).finish();
}
