//! Applications are judged again when the rules of the configuration change.
//!
//! Promises: the processes that are looked at are those that have attached themselves, as at the start. The processes of an application share
//! its sockets, so that one of them that a rule leaves to the kernel, or denies, makes all of it so; what is allowed are the terms of the first. Does not do: processes that attach; see `admission`.

use ringway_channel::KernelReason;
use ringway_channel::attach::{Credentials, Peer};
use ringway_engine::{Allowance, Ruling, Verdict};

use super::Broker;
use super::admission::{Refusal, obey_rules};
use super::members::open_pid;
use crate::config::rules::Rules;
use crate::executables::Executables;

impl Broker {
    /// The rules have changed.
    pub(super) fn judge_again(&mut self) {
        self.config.policy.hush(self.config.number);
        let rules = self.config.policy.rules();
        for region in self.members.groups() {
            let owner = self.members.owner(region);
            let (ruling, why) = judge((&rules, &self.config.executables), &self.members.pids_of(region), owner);
            let has_changed = self.members.rule(region, ruling);
            if has_changed && self.config.number == 0 {
                let (application, program) = (region.0, self.members.program(region));
                let why = why.unwrap_or_else(|| "the rules let Ringway serve it".to_owned());
                tracing::info!(target: "ringway::attach", application, "application {application}, {program}: {why}");
            }
            if has_changed {
                // A worker that has stopped serves nothing.
                self.config.worker.rule(region, ruling).ok();
            }
        }
    }
}

/// What the rules say of an application with these processes, and why, if it is not served.
fn judge((rules, executables): (&Rules, &Executables), pids: &[u32], owner: u32) -> (Ruling, Option<String>) {
    let refused = |verdict, why| (Ruling { verdict, allowance: Allowance::default() }, Some(why));
    let (mut allowed, mut kernels) = (None, None);
    for &pid in pids {
        match obey_rules(rules, executables, Credentials { pid, uid: user_of(pid).unwrap_or(owner), gid: 0 }) {
            Ok(allowance) => allowed = allowed.or(Some(allowance)),
            // It has died meanwhile, and nothing is known of it any more.
            Err(_) if is_dead(pid) => {}
            Err(Refusal::Denied(why)) => return refused(Verdict::Deny, why),
            Err(Refusal::Kernel(why)) => kernels = kernels.or(Some(why)),
        }
    }
    match kernels {
        Some(why) => refused(Verdict::Kernel(KernelReason::Rule), why),
        None => (Ruling { verdict: Verdict::default(), allowance: allowed.unwrap_or_default() }, None),
    }
}

/// The effective user of a process (proc_pid_status(5)); `None`: it is dead, or of a PID namespace that is not seen here.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

fn is_dead(pid: u32) -> bool {
    !Peer::is_foreign(pid) && open_pid(pid).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn judged(rules: &str, pids: &[u32]) -> (Ruling, Option<String>) {
        let config = Config::parse("t.toml", rules, Vec::new()).expect("the rules are right");
        judge((config.rules(), &Executables::off()), pids, 0)
    }

    #[test]
    fn one_process_decides_for_the_application() {
        let own = std::process::id();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(user_of(own), Some(user));
        let rule = |action: &str, user: u32| format!("[[rule]]\naction = \"{action}\"\nuser = {user}\n");
        let (ruling, why) = judged(&rule("kernel", user), &[own]);
        assert_eq!(ruling.verdict, Verdict::Kernel(KernelReason::Rule));
        assert!(why.is_some_and(|why| why.contains("t.toml:1")));
        assert_eq!(judged(&rule("deny", user), &[own]).0.verdict, Verdict::Deny);
        assert_eq!(judged(&rule("deny", user + 1), &[own]), (Ruling::default(), None));
        let few = judged(&format!("{}sockets = 4\n", rule("accelerate", user)), &[own]).0;
        assert_eq!((few.verdict.serves(), few.allowance.sockets), (true, 4));
    }

    /// Number 4194304 is no process's: proc_sys_kernel(5), pid_max.
    #[test]
    fn a_process_that_is_dead_does_not_count() {
        let rules = "[[rule]]\naction = \"kernel\"\nprogram = \"some\"\n";
        assert_eq!(judged(rules, &[4_194_304]), (Ruling::default(), None));
    }
}
