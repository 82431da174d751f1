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

/// What the program has asked for is not exceeded.
#[test]
fn the_program_may_want_less() {
    let options = TcpOptions { send_buffer_bytes: 64 << 10, ..TcpOptions::default() };
    assert_eq!(send_limit(&options, SEND_LIMIT_ALONE), 64 << 10);
    let options = TcpOptions { not_sent_low_water: 32 << 10, ..TcpOptions::default() };
    assert_eq!(send_limit(&options, SEND_LIMIT_ALONE), 32 << 10);
}
