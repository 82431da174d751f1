use super::*;

/// The paper's appendix A: key 00 01 .. 0f, input 00 01 .. 0e.
#[test]
fn paper() {
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    let input: [u8; 15] = core::array::from_fn(|n| n as u8);
    assert_eq!(Sip::of_bytes(key, SIP_2_4, &input), 0xa129_ca61_49be_45e5);
}
