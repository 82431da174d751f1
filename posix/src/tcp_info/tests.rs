use super::*;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Offsets from Linux's header: rtt at 68, cwnd at 80, total_retrans at 100, bytes_acked at 120, snd_wnd at 228, others
/// below.
#[test]
fn fields_stand_where_linux_has_them() {
    let info = InfoRecord {
        state: 1,
        rtt_us: 123,
        cwnd_segments: 10,
        retransmitted_segments: 7,
        acked_bytes: 1 << 40,
        send_window: 65_535,
        timeouts: 3,
        timeout_ms: 900,
        received_bytes_ce: 55,
        accurate_options: 1,
        ssthresh_segments: u64::MAX,
        ..InfoRecord::default()
    };
    let mut bytes = [0; 512];
    assert_eq!(write(&info, &mut bytes), 280);
    assert_eq!((bytes[0], word(&bytes, 68), word(&bytes, 80), word(&bytes, 100)), (1, 123, 10, 7));
    assert_eq!(u64::from_ne_bytes(bytes[120..128].try_into().expect("eight bytes")), 1 << 40);
    assert_eq!((word(&bytes, 76), word(&bytes, 228)), (0x7fff_ffff, 65_535));
    // total_rto at 240, total_rto_time at 244, received_ce_bytes at 272, accecn_opt_seen at 278.
    assert_eq!((word(&bytes, 240), word(&bytes, 244), word(&bytes, 272), word(&bytes, 276)), (3, 900, 55, 1 << 16));
}

#[test]
fn a_short_buffer_gets_the_beginning() {
    let mut bytes = [0; 10];
    assert_eq!(write(&InfoRecord { state: 8, ..InfoRecord::default() }, &mut bytes), 10);
    assert_eq!(bytes[0], 8);
}

#[test]
fn what_waits_in_the_stack_is_added_to_what_waits_in_the_kernel() {
    let mut bytes = [0; 104];
    bytes[24] = 2;
    add_waiting(&mut bytes, 5);
    assert_eq!(word(&bytes, 24), 7);
    add_waiting(&mut bytes, usize::MAX);
    assert_eq!(word(&bytes, 24), u32::MAX);
    let mut short = [9; 26];
    add_waiting(&mut short, 5);
    assert_eq!(short, [9; 26]);
}
