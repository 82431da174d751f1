use super::*;
use crate::ss::LISTEN;
use crate::ss::tests::{shown_of, socket};

fn shown(pids: [u32; 2], descriptor: u32) -> Shown<'static> {
    let holders = [pids[0], pids[1], 0, 0, 0, 0, 0, 0];
    shown_of(SocketRecord { holders, descriptor: Some(descriptor), ..socket(LISTEN, "0.0.0.0:80", "0.0.0.0:0") })
}

/// Process 1 has the socket with inode 500 as 5 and 7 and another one as 6; process 2 has 500 as 6.
fn table(pid: u32) -> Option<Process> {
    let sockets = match pid {
        1 => vec![(5, 500), (6, 600), (7, 500)],
        2 => vec![(6, 500)],
        _ => return None,
    };
    Some(Process::new(format!("program{pid}"), sockets))
}

fn numbers(mut sockets: Vec<Shown<'static>>) -> Vec<Vec<(u32, Option<u32>)>> {
    find_in(&mut sockets, table);
    sockets.iter().map(|shown| shown.holders.iter().map(|holder| (holder.pid, holder.descriptor)).collect()).collect()
}

#[test]
fn each_process_is_shown_with_its_own_numbers() {
    let expected = [vec![(1, Some(5)), (1, Some(7)), (2, Some(6))]];
    assert_eq!(numbers(vec![shown([1, 2], 5)]), expected);
    assert_eq!(numbers(vec![shown([1, 2], 6)]), expected, "6 is another socket in process 1, which process 2 does not have");
}

#[test]
fn a_number_that_says_nothing_is_not_shown() {
    assert_eq!(numbers(vec![shown([1, 0], 9)]), [[(1, None)]], "closed past the library");
    assert_eq!(numbers(vec![shown([3, 0], 5)]), [[(3, None)]], "/proc does not tell");
    assert_eq!(numbers(vec![shown([3, 1], 6)]), [[(3, None), (1, Some(6))]]);
    let twice = numbers(vec![shown([1, 0], 5), shown([1, 0], 7)]);
    assert_eq!(twice, [[(1, None)], [(1, None)]], "two sockets cannot be the same kernel socket");
}

#[test]
fn the_sockets_of_this_process_are_read_from_proc() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = std::os::fd::AsRawFd::as_raw_fd(&listener) as u32;
    let process = read(std::process::id()).expect("it is our own");
    assert!(process.inodes.contains_key(&number) && !process.name.is_empty(), "{process:?}");
    assert!(read(u32::MAX).is_none());
}
