//! Limits of the configuration that change while the service runs.
//!
//! Promises: each reader gets the latest ones; what was granted before stays. Does not do: the limits of workers; they are told.

use std::sync::{Arc, PoisonError, RwLock};

use crate::broker::{Admission, AttachLimits, KeptLimits, WakeFdLimits};
use crate::config::{Config, RuleChoice};

/// A value that many read and the configuration changes.
#[derive(Clone, Debug)]
pub(crate) struct Live<T>(Arc<RwLock<T>>);

impl<T: Clone> Live<T> {
    /// The value now.
    pub(crate) fn get(&self) -> T {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl<T> From<T> for Live<T> {
    fn from(value: T) -> Live<T> {
        Live(Arc::new(RwLock::new(value)))
    }
}

/// What brokers hold applications and users to.
pub(crate) struct LiveLimits {
    pub(crate) admission: Live<Admission>,
    pub(crate) attach: Live<AttachLimits>,
    pub(crate) kept: Live<KeptLimits>,
    pub(crate) wake_fds: Live<WakeFdLimits>,
    /// The meaning of BPF programs of cgroups for a program's sockets.
    pub(crate) firewall: Live<RuleChoice>,
    /// Packets of served ports that the kernel may get in a second; 0: all.
    pub(crate) kernel_packets: Live<u32>,
}

impl LiveLimits {
    /// As configured, for the processes that `admission` lets in now.
    pub(crate) fn new(config: &Config, admission: &Admission) -> LiveLimits {
        let admission = admission.clone().into();
        let (attach, kept, wake_fds) = (attach(config).into(), kept(config).into(), wake_fds(config).into());
        let (firewall, kernel_packets) = (config.policy.firewall.into(), config.limits.kernel_packets_per_second.into());
        LiveLimits { admission, attach, kept, wake_fds, firewall, kernel_packets }
    }

    /// From now on as configured.
    pub(crate) fn follow(&self, config: &Config) {
        if !self.admission.get().is_private() {
            self.admission.set(Admission::of_group(&config.policy.group));
        }
        self.attach.set(attach(config));
        self.kept.set(kept(config));
        self.wake_fds.set(wake_fds(config));
        self.firewall.set(config.policy.firewall);
        self.kernel_packets.set(config.limits.kernel_packets_per_second);
    }
}

fn attach(config: &Config) -> AttachLimits {
    AttachLimits {
        groups_per_user: config.limits.groups_per_user,
        processes_per_group: config.limits.processes_per_group,
        connections: config.limits.attach_connections,
        silent_per_user: config.limits.silent_connections_per_user,
    }
}

fn kept(config: &Config) -> KeptLimits {
    KeptLimits { per_user: config.limits.shown_sockets_per_user, all: config.limits.shown_sockets, adopts: config.policy.adopts }
}

fn wake_fds(config: &Config) -> WakeFdLimits {
    WakeFdLimits::new(config.limits.wait_contexts_per_user, config.limits.wait_contexts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Adopts;

    #[test]
    fn all_copies_of_a_limit_have_the_latest() {
        let config = |text: &str| Config::parse("t.toml", text, Vec::new()).expect("it is right");
        let limits = LiveLimits::new(&config("limits.groups_per_user = 3\n"), &Admission::of_group("ringway"));
        let admission = limits.admission.clone();
        let (attach, kept, wake_fds) = (limits.attach.clone(), limits.kept.clone(), limits.wake_fds.clone());
        assert_eq!(attach.get().groups_per_user, 3);
        limits.follow(&config(
            "limits.groups_per_user = 5\nlimits.shown_sockets = 77\nlimits.wait_contexts = 99\npolicy.adopt = \"none\"\npolicy.group = \"root\"\n",
        ));
        assert_eq!(admission.get(), Admission::of_group("root"));
        assert_eq!((attach.get().groups_per_user, kept.get().all, wake_fds.get().all), (5, 77, 99));
        assert_eq!(kept.get().adopts, Adopts::Nothing);
        // A private service stays its program's.
        let private = LiveLimits::new(&config(""), &Admission::Private([7; 16]));
        private.follow(&config("policy.group = \"root\"\n"));
        assert_eq!(private.admission.get(), Admission::Private([7; 16]));
    }
}
