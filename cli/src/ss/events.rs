//! `ss -E`: sockets as they end, a line each, until a signal or the end of all services.
//!
//! Reads the rings that workers write while a tool listens (`ringway_shm::capture::EndedReader`), which take the right to write them: root and the
//! service's user have it. Promises: sockets come in the order in which they ended; how many were missed is said at the end.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use ringway_engine::clock;
use ringway_shm::capture::EndedReader;

use super::holders::Holder;
use super::table::Table;
use super::{Arguments, Filter, LISTEN, Names, Shown, detail};
use crate::capture::until_a_signal;
use crate::services::Service;

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Prints them.
pub(super) fn follow(arguments: &Arguments, filter: &Filter) -> io::Result<()> {
    let stop = until_a_signal()?;
    let services = arguments.services.find()?;
    if services.is_empty() {
        return Err(arguments.services.nothing());
    }
    let mut readers: Vec<EndedReader> = services.iter().map(open).collect::<io::Result<_>>()?;
    let (names, mut table) = (Names::new(arguments.numeric), Table::for_more());
    // The header says that it listens.
    print(arguments, &mut table, &[], &names)?;
    loop {
        // Read before the rings, so that what ended before it is still printed.
        let is_last = stop.load(Ordering::Relaxed) || !services.iter().any(Service::is_alive);
        let mut ended: Vec<_> = services.iter().zip(&mut readers).flat_map(|(service, reader)| ended(service, reader)).collect();
        ended.sort_by_key(|shown| shown.now);
        ended.retain(|shown| filter.wants(&shown.socket));
        print(arguments, &mut table, &ended, &names)?;
        if is_last {
            break;
        }
        sleep(POLL);
    }
    let missed: u64 = readers.iter().map(EndedReader::lost).sum();
    if missed > 0 {
        eprintln!("ringway ss: {missed} more sockets have ended than could be read in time");
    }
    Ok(())
}

fn open(service: &Service) -> io::Result<EndedReader> {
    let path = service.file("ended");
    EndedReader::open(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Those of a worker that have ended since the last look.
fn ended<'a>(service: &'a Service, reader: &mut EndedReader) -> Vec<Shown<'a>> {
    let mut ended = Vec::new();
    let until = clock::now();
    while let Some((now, socket)) = reader.next_socket() {
        // A listener has a slot at each worker, and is told of by the first one.
        if socket.state == LISTEN && service.worker > 0 {
            continue;
        }
        let holder = Holder { name: socket.program.clone(), pid: socket.pid, descriptor: None };
        let holders = if socket.pid == 0 { Vec::new() } else { vec![holder] };
        ended.push(Shown { socket, holders, service: &service.label, interface: "-".to_owned(), now });
        // A busy worker must not keep this command from printing.
        if now > until {
            break;
        }
    }
    ended
}

fn print(arguments: &Arguments, table: &mut Table, ended: &[Shown<'_>], names: &Names) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        for shown in ended {
            writeln!(out, "{}", detail::json(shown))?;
        }
    } else {
        table.print(&mut out, arguments, ended, names)?;
    }
    out.flush()
}
