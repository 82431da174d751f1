//! Two hosts, one wire, and the clock: virtual time jumps to the next due time.

use std::cell::RefCell;
use std::rc::Rc;

use ringway_shm::{Duration, Instant};
use ringway_stack::Counter;

use crate::check::wire::WireCheck;
use crate::check::{Failure, failure, memory};
use crate::host::Host;

/// A simulated network.
pub struct Network {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The wire's checker.
    pub wire: Rc<RefCell<WireCheck>>,
    now: Instant,
    turns: u64,
}

impl Network {
    /// Makes a network at time zero.
    pub fn new(hosts: Vec<Host>, wire: Rc<RefCell<WireCheck>>) -> Network {
        Network { hosts, wire, now: Instant::ZERO, turns: 0 }
    }

    /// Returns virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of iterations of all hosts.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Runs until all applications are done.
    ///
    /// # Errors
    /// When a checker finds an error; when nothing is due though a host still waits; when the run takes longer than `limit`
    /// of virtual time; or when iterations at one instant do not end.
    pub fn run_until_done(&mut self, limit: Duration) -> Result<(), Failure> {
        let end = self.now + limit;
        loop {
            self.settle()?;
            if self.hosts.iter().all(Host::is_done) {
                return Ok(());
            }
            match self.next_time() {
                Some(at) if at <= end => self.now = self.now.max(at),
                Some(_) => return self.explain(&format!("not done after {} ms", limit.as_millis())),
                None if self.lose_patience() => {}
                None => return self.explain("nothing is due, but a host still waits"),
            }
        }
    }

    /// Runs for `span`, whatever happens.
    ///
    /// # Errors
    /// The errors of `run_until_done`, except that no host has to finish.
    pub fn run_for(&mut self, span: Duration) -> Result<(), Failure> {
        let end = self.now + span;
        loop {
            self.settle()?;
            match self.next_time() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = end;
        Ok(())
    }

    /// Waits until TIME-WAIT is over and checks for leaks.
    ///
    /// # Errors
    /// When frames or sockets are left.
    pub fn check_nothing_left(&mut self) -> Result<(), Failure> {
        self.run_for(Duration::from_secs(1_200))?;
        self.hosts.iter_mut().for_each(|host| host.close_beside(self.now));
        self.hosts.iter().try_for_each(memory::check_nothing_left)
    }

    /// Runs iterations until no host has anything to do at this instant.
    fn settle(&mut self) -> Result<(), Failure> {
        for _ in 0..TURNS_AT_ONE_INSTANT_MAX {
            let mut busy = false;
            for at in 0..self.hosts.len() {
                match self.hosts[at].turn(self.now) {
                    Ok(did_something) => busy |= did_something,
                    Err(Failure(text)) => return self.explain(&text),
                }
                self.turns += 1;
                if self.losses_left(at).is_none() {
                    return self.explain(&format!("{}: reset without reason", self.hosts[at].name));
                }
            }
            let violation = self.wire.borrow().violation().map(str::to_string);
            if let Some(violation) = violation {
                return self.explain(&format!("on the wire: {violation}"));
            }
            // An iteration may have delivered packets to a host whose iteration came before.
            if !busy && !self.hosts.iter_mut().any(Host::has_waiting) {
                return Ok(());
            }
        }
        self.explain("iterations at one instant do not end")
    }

    /// Returns the number of peers that host `at` may still lose: a stack that gives a connection up after its last
    /// retransmission sends nothing (RFC 9293 §3.8.3), so the other end waits, or probes and is reset.
    fn losses_left(&self, at: usize) -> Option<u64> {
        let others = self.hosts.iter().enumerate().filter(|(other, _)| *other != at);
        let given_up: u64 = others.map(|(_, host)| host.stack.counters().get(Counter::TcpAbortOnTimeout)).sum();
        given_up.checked_sub(self.hosts[at].application.lost_peers())
    }

    /// Stands for a program's own timeout: ends whose peers have given up stop waiting. Returns true when an end stopped.
    fn lose_patience(&mut self) -> bool {
        let now = self.now;
        (0..self.hosts.len()).any(|at| {
            let most = self.losses_left(at).unwrap_or(0);
            let host = &mut self.hosts[at];
            host.application.lose_patience(now, &mut host.stack, most)
        })
    }

    fn next_time(&self) -> Option<Instant> {
        self.hosts.iter().filter_map(Host::poll_timeout).min()
    }

    /// Makes a failure with all that helps to diagnose it.
    fn explain(&self, what: &str) -> Result<(), Failure> {
        let hosts: Vec<String> = self.hosts.iter().map(Host::describe).collect();
        failure(format!("{what} (at {} us)\n{}\n{}", self.now.as_micros(), hosts.join("\n"), self.wire.borrow().trace()))
    }
}

/// More iterations than any valid burst of work needs.
const TURNS_AT_ONE_INSTANT_MAX: usize = 100_000;
