use super::*;

/// A description with one type of each kind, then the function `wanted`.
fn description() -> Vec<u8> {
    let names = b"\0other\0wanted\0";
    let mut types = Vec::new();
    let mut put = |words: &[u32]| types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    for (kind, count) in (1..=19_u32).flat_map(|kind| [(kind, 0), (kind, 2)]) {
        let behind = words_behind(kind, count as usize).expect("all of these are known");
        put(&[1, kind << 24 | count, 0]);
        put(&vec![0xffff_ffff; behind]);
    }
    // Of another kind, with the name that is looked for.
    put(&[7, 8 << 24, 0]);
    put(&[7, KIND_FUNCTION << 24, 0]);
    let header = [u32::from(MAGIC) | 1 << 16, 24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
    let header = header.iter().flat_map(|word| word.to_ne_bytes());
    header.chain(types.clone()).chain(names.iter().copied()).collect()
}

#[test]
fn a_function_is_found_behind_every_kind_of_type() {
    let btf = description();
    assert_eq!(find(&btf, b"wanted"), Some(2 * 19 + 2));
    assert_eq!(find(&btf, b"other"), Some(2 * 12 - 1));
    assert_eq!(find(&btf, b"wante"), None);
    assert_eq!(find(&btf, b"nothing"), None);
}

#[test]
fn a_description_that_ends_early_or_lies_has_no_function() {
    let btf = description();
    for len in 0..btf.len() - 1 {
        assert_eq!(find(&btf[..len], b"nothing"), None);
    }
    for at in 0..24 {
        let mut lies = btf.clone();
        lies[at] = 0xff;
        find(&lies, b"wanted");
    }
    let mut unknown = btf;
    unknown[24 + 7] = 31;
    assert_eq!(find(&unknown, b"wanted"), None, "a kind of which nothing is known ends the search");
}

/// The kernel of this machine has functions that programs call.
#[test]
fn the_kernels_own_description_is_read() {
    let Ok(found) = function("bpf_cast_to_kern_ctx") else { return };
    assert!(found.is_some());
}
