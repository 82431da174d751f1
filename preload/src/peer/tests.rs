//! What the maps of another process say.

use super::maps_without;

const NAME: &[u8] = b"/libringway_preload.so";

#[test]
fn a_library_is_known_by_its_files_name() {
    let outside = b"55d0-55d1 r--p 0 fe:00 7 /usr/bin/cat\n7f00-7f01 rw-p 0 00:00 0 \n7f02-7f03 r-xp 0 fe:00 9 /lib/libc.so.6\n";
    assert!(maps_without(outside, NAME));
    assert!(maps_without(b"7f00-7f01 r-xp 0 fe:00 9 /lib/other_libringway_preload.so\n", NAME));
    let inside = b"55d0-55d1 r--p 0 fe:00 7 /usr/bin/cat\n7f00-7f01 r-xp 0 fe:00 9 /elsewhere/libringway_preload.so\n";
    assert!(!maps_without(inside, NAME));
    // Replaced by a newer one since.
    assert!(!maps_without(b"7f00-7f01 r-xp 0 fe:00 9 /lib/libringway_preload.so (deleted)\n", NAME));
    assert!(!maps_without(b"", NAME), "it is not known");
}
