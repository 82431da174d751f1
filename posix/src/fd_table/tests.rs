use super::*;

const SOCKET: Entry = Entry::Socket(SocketRef { index: 0x00ab_cdef, generation: 0xffff_fffe });

#[test]
fn an_entry_comes_back_as_it_was_written() {
    let table = FdTable::new();
    for entry in [SOCKET, Entry::Internal, Entry::Epoll(7)] {
        table.set(5, entry);
        assert_eq!(table.lookup(5), entry);
        assert_eq!(table.lookup(4), Entry::None);
    }
}

#[test]
fn taking_an_entry_gives_it_to_one_caller_only() {
    let table = FdTable::new();
    table.set(9000, SOCKET);
    assert_eq!(table.take(9000), SOCKET);
    assert_eq!(table.take(9000), Entry::None);
}

#[test]
fn sockets_are_counted_whatever_takes_their_place() {
    let table = FdTable::new();
    let other = Entry::Socket(SocketRef { index: 1, generation: 1 });
    assert!(!table.has_sockets());
    table.set(3, Entry::Epoll(7));
    table.set(4, Entry::Internal);
    assert!(!table.has_sockets());
    table.set(5, SOCKET);
    table.set(5, other);
    assert!(!table.take_exactly(5, SOCKET) && table.has_sockets());
    assert!(table.take_exactly(5, other) && !table.has_sockets());
    table.set(6, SOCKET);
    table.set(6, Entry::None);
    assert!(!table.has_sockets());
    table.set(7, SOCKET);
    table.take(7);
    table.take(7);
    assert!(!table.has_sockets());
}

#[test]
fn numbers_outside_the_table_are_the_kernels() {
    let table = FdTable::new();
    for fd in [-1, LIMIT as Fd, Fd::MAX] {
        assert_eq!(table.set(fd, SOCKET), Entry::None);
        assert_eq!(table.lookup(fd), Entry::None);
        assert!(!table.fits(fd));
    }
}

#[test]
fn a_range_visits_ours_and_only_inside_its_bounds() {
    let table = FdTable::new();
    for fd in [3, 4096, 4097, 20_000] {
        table.set(fd, SOCKET);
    }
    let mut seen = Vec::new();
    table.for_each_in(4, Fd::MAX, |fd, _| seen.push(fd));
    assert_eq!(seen, [4096, 4097, 20_000]);
    seen.clear();
    table.for_each_in(0, 4096, |fd, _| seen.push(fd));
    assert_eq!(seen, [3, 4096]);
}
