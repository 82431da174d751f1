use ringway_channel::Shape;

use super::*;

/// Few writers may write far ahead, many less far than those of a region without bulk chunks.
#[test]
fn writers_go_far_ahead_while_bulk_chunks_are_free() {
    assert_eq!(most_ahead(0, 256), SEND_LIMIT_ALONE);
    assert_eq!(most_ahead(63, 256), SEND_LIMIT_ALONE);
    assert_eq!(most_ahead(64, 256), SEND_LIMIT_MANY);
    assert_eq!(most_ahead(63, 1024), SEND_LIMIT_ALONE);
    assert_eq!(most_ahead(64, 1024), SEND_LIMIT_MANY, "more chunks make the cache no larger");
    assert_eq!(most_ahead(15, 64), SEND_LIMIT_ALONE);
    assert_eq!(most_ahead(16, 64), SEND_LIMIT);
    assert_eq!(most_ahead(0, 0), SEND_LIMIT);
}

/// The program's own limit is not exceeded.
#[test]
fn the_program_may_want_less() {
    let options = TcpOptions { send_buffer_bytes: 64 << 10, ..TcpOptions::default() };
    assert_eq!(send_limit(&options, SEND_LIMIT_ALONE), 64 << 10);
    let options = TcpOptions { not_sent_low_water: 32 << 10, ..TcpOptions::default() };
    assert_eq!(send_limit(&options, SEND_LIMIT_ALONE), 32 << 10);
}

/// A socket that reads nothing does not take the last quarter from those that do.
#[test]
fn the_last_chunks_are_for_sockets_with_nothing_unread() {
    assert_eq!(unread_limit(4096, 4096), UNREAD_MAX);
    assert_eq!(unread_limit(512, 512), 128 << 10);
    assert_eq!(unread_limit(256, 512), 32 << 10);
    for free in 0..=128 {
        assert_eq!(unread_limit(free, 512), 1, "{free} chunks are free");
    }
}

/// One writer may have most of the bulk chunks; when few are left, none more, and only some of the large ones.
#[test]
fn the_last_send_chunks_are_for_sockets_that_hold_none() {
    let shape = Shape { slots: 256, tx_large: 512, tx_bulk: 128, ..Shape::default() };
    let (channel, _memory) = Attachment::create(shape).expect("memory");
    assert!(send_share(&channel) > SEND_LIMIT_ALONE);
    assert!(!is_short(&channel));
    let shape = Shape { tx_bulk: 4, ..shape };
    let (channel, _memory) = Attachment::create(shape).expect("memory");
    assert_eq!(send_share(&channel), BULK_LIMIT - 1);
    let shape = Shape { tx_bulk: 0, ..shape };
    let (channel, _memory) = Attachment::create(shape).expect("memory");
    assert_eq!(send_share(&channel), 112 << 10, "an eighth of seven eighths");
}
