use super::*;

fn open(context: &Context) -> c_int {
    // SAFETY: it makes a descriptor.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    assert!(fd >= 0);
    context.new_id().expect("an id is free").keep(fd)
}

#[test]
fn the_lowest_free_id_is_given_and_no_more_than_there_are() {
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
    assert_eq!([open(&context), open(&context)], [0, 2]);
}

#[test]
fn an_id_whose_socket_was_not_made_is_free_again() {
    let context = Context::new(1);
    drop(context.new_id().expect("it is free"));
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
