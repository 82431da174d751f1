use super::*;

#[test]
fn values_are_translated_both_ways() {
    let int = |number: c_int| number.to_ne_bytes().to_vec();
    assert_eq!(Form::Word(1).read("4096\t16384\t4194304\n"), Some(int(16384)));
    assert_eq!(Form::Word(1).write("4096\t16384\t4194304\n", &int(20000)).as_deref(), Some("4096 20000 4194304"));
    assert_eq!(Form::Seconds.read("7200\n"), Some(int(7_200_000)));
    assert_eq!(Form::Seconds.write("7200\n", &int(60_500)).as_deref(), Some("60"));
    assert_eq!(Form::Text.read("cubic\n"), Some(b"cubic\0".to_vec()));
    assert_eq!(Form::Text.write("cubic\n", b"reno\0").as_deref(), Some("reno"));
    // No value, one of another size, a negative one, a word that is not there.
    for (form, text, value) in [
        (Form::Text, "x", &b"\0"[..]),
        (Form::Word(0), "1", b"abc"),
        (Form::Word(0), "1", &[0xff; 4]),
        (Form::Word(3), "1", &[0; 4]),
    ] {
        assert_eq!(form.write(text, value), None);
    }
    assert_eq!(Form::Word(0).read("18446744073709551615"), Some(int(c_int::MAX)));
}

#[test]
fn a_name_leads_to_its_value_by_numbers() {
    let mut numbers = [0 as c_int; 4];
    let mut len = size_of_val(&numbers);
    let name = b"net.inet.ip.ttl\0";
    // SAFETY: all is this function's.
    unsafe {
        let got = ff_sysctl([0, 3].as_ptr(), 2, numbers.as_mut_ptr().cast(), &raw mut len, name.as_ptr().cast(), name.len());
        assert_eq!((got, len, numbers[0]), (0, 8, TREE));
        let (mut ttl, mut size) = (0 as c_int, 4);
        let ask = |ttl: *mut c_int, size: &mut usize| ff_sysctl(numbers.as_ptr(), 2, ttl.cast(), size, std::ptr::null(), 0);
        assert_eq!((ask(&raw mut ttl, &mut size), size), (0, 4));
        assert!((1..=255).contains(&ttl), "{ttl}");
        let mut small = 3;
        assert_eq!((ask(&raw mut ttl, &mut small), small), (-1, 4));
        assert_eq!(ff_sysctl([1, 2, 3].as_ptr(), 3, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null(), 0), -1);
        assert_eq!(Errno::last(), Errno(libc::ENOENT));
    }
}
