//! A paused process and its children stop and continue.
use super::*;
use std::process::{Child, Command};

/// The state in /proc/PID/stat: `T` is stopped.
fn state(pid: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

fn wait_for(child: &Child, wanted: impl Fn(char) -> bool) -> Vec<char> {
    for _ in 0..10_000 {
        let states: Vec<char> = cpu::tree(child.id()).into_iter().map(state).collect();
        if states.len() == 2 && states.iter().all(|state| wanted(*state)) {
            return states;
        }
        std::thread::yield_now();
    }
    panic!("{:?}", cpu::tree(child.id()).into_iter().map(state).collect::<Vec<char>>());
}

#[test]
fn a_process_stops_and_goes_on_with_what_it_has_started() {
    let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().expect("there is a shell");
    wait_for(&child, |state| state == 'S');
    pause(child.id());
    wait_for(&child, |state| state == 'T');
    resume(child.id());
    wait_for(&child, |state| state == 'S');
    signal(child.id(), Signal::KILL);
    child.wait().expect("it was started here");
    // The process has ended: nothing happens.
    pause(child.id());
}
