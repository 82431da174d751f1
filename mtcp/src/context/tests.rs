use super::*;

fn open(context: &Context) -> c_int {
    // SAFETY: it makes a descriptor.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    assert!(fd >= 0);
    context.new_id().expect("an id is free").keep(fd)
}

#[test]
fn no_more_ids_are_given_than_there_are_and_those_closed_first_come_first() {
    let context = Context::new(3);
    assert_eq!([open(&context), open(&context), open(&context)], [0, 1, 2]);
    assert_eq!(context.new_id().err(), Some(Errno(libc::EMFILE)));
    for id in [2, 0] {
        let fd = context.take(id).expect("it is open");
        // SAFETY: it was taken out of the context.
        unsafe { libc::close(fd) };
        assert_eq!(context.descriptor(id), Err(Errno(libc::EBADF)));
        assert_eq!(context.take(id), Err(Errno(libc::EBADF)));
    }
    assert_eq!([open(&context), open(&context)], [2, 0]);
}

/// Programs look into their arrays after they have closed a socket and opened another one.
#[test]
fn an_id_rests_before_it_is_given_again_and_ids_stay_small() {
    let context = Context::new(10_000);
    let mut before = open(&context);
    let mut largest = before;
    for _ in 0..1_000 {
        let fd = context.take(before).expect("it is open");
        // SAFETY: it was taken out of the context.
        unsafe { libc::close(fd) };
        let next = open(&context);
        assert_ne!(next, before);
        (before, largest) = (next, largest.max(next));
    }
    assert!(largest as usize <= RESTING + 1, "{largest}");
}

#[test]
fn an_id_whose_socket_was_not_made_is_free_again() {
    let context = Context::new(10);
    for _ in 0..3 {
        drop(context.new_id().expect("it is free"));
    }
    assert_eq!(open(&context), 0);
    for id in [-1, 1, c_int::MAX] {
        assert_eq!(context.descriptor(id), Err(Errno(libc::EBADF)));
    }
}

impl PartialEq for NewId<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for NewId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}
