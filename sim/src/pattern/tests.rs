use super::*;

/// Recognises all that it writes, across the table's end too, and finds a wrong or shifted byte.
#[test]
fn what_is_written_is_recognised() {
    let pattern = Pattern::new(3).stream(77);
    for offset in [0, 5, TABLE_BYTES as u64 - 3, 10 * TABLE_BYTES as u64 + 1] {
        let mut bytes = [0; 64];
        pattern.fill(offset, &mut bytes);
        assert_eq!(pattern.matching(offset, &bytes), 64);
        assert!(pattern.matching(offset + 1, &bytes) < 64);
        bytes[40] ^= 1;
        assert_eq!(pattern.matching(offset, &bytes), 40);
    }
    assert!(
        pattern.matching(0, &{
            let mut other = [0; 64];
            Pattern::new(3).stream(78).fill(0, &mut other);
            other
        }) < 64
    );
}
