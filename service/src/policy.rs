//! The rules of the configuration that are in force: workers ask them about ports and connections, brokers about processes.
//!
//! Rules of other network namespaces are left out, and interfaces that rules name have the addresses that the kernel says. Promises: what is
//! asked never waits for the kernel. Does not do: telling workers that rules have changed; brokers are told here.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ringway_channel::attach::{network_inode, network_named};
use ringway_stack::SharedRate;
use rustix::event::{EventfdFlags, eventfd};

use crate::config::rules::Rules;
use crate::netlink::Snapshot;

/// Addresses by the name of their interface.
type Addresses = BTreeMap<String, Vec<IpAddr>>;

/// See the module's text.
#[derive(Clone, Default)]
pub(crate) struct Policy(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// What `now` is made of.
    known: Mutex<(Rules, Addresses)>,
    now: RwLock<Arc<Rules>>,
    /// By the words of the rule that connections share them by. They are never given back: connections may have those of rules that are gone.
    rates: Mutex<Vec<(String, &'static SharedRate)>>,
    /// One for each broker.
    wake_fds: Vec<OwnedFd>,
}

impl Policy {
    /// For so many brokers, in the network namespace of the caller, which `kernel` shows.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(rules: &Rules, kernel: &Snapshot, brokers: usize) -> io::Result<Policy> {
        let wake_fds = (0..brokers).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
        let policy = Policy(Arc::new(Shared { wake_fds: wake_fds.collect::<Result<_, _>>()?, ..Shared::default() }));
        policy.change(|known| *known = (policy.of_this_namespace(rules), addresses(kernel)));
        Ok(policy)
    }

    /// The rules that are in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.0.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these rules are in force; brokers hear of it. `false`: they are the same as before.
    pub(crate) fn install(&self, rules: &Rules) -> bool {
        let has_changed = self.change(|known| known.0 = self.of_this_namespace(rules));
        if has_changed {
            for wake_fd in &self.0.wake_fds {
                // A full counter has been rung.
                rustix::io::write(wake_fd, &1u64.to_ne_bytes()).ok();
            }
        }
        has_changed
    }

    /// Follows the kernel's addresses. `false`: no rule says anything else for it.
    pub(crate) fn follow(&self, kernel: &Snapshot) -> bool {
        self.change(|known| known.1 = addresses(kernel))
    }

    /// Readable when the rules have changed; of one broker.
    pub(crate) fn wake_fd(&self, broker: usize) -> BorrowedFd<'_> {
        self.0.wake_fds[broker].as_fd()
    }

    /// Makes it quiet until the next change.
    pub(crate) fn hush(&self, broker: usize) {
        // Empty: quiet already.
        rustix::io::read(&self.0.wake_fds[broker], &mut [0; 8]).ok();
    }

    fn of_this_namespace(&self, rules: &Rules) -> Rules {
        let of_here = rules.of(|name| {
            is_here(name).unwrap_or_else(|error| {
                tracing::warn!(target: "ringway::config", "a rule for network namespace {name} is not followed: {error}");
                false
            })
        });
        of_here.sharing(|rule, rate| self.rate(rule, rate))
    }

    /// The rate that connections share by a rule; one that comes again is the same.
    fn rate(&self, rule: &str, rate: u64) -> &'static SharedRate {
        let mut rates = self.0.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = rates.iter().find(|(known, _)| known == rule) {
            return known;
        }
        let made: &'static SharedRate = Box::leak(Box::new(SharedRate::new(rate)));
        rates.push((rule.to_owned(), made));
        made
    }

    fn change(&self, how: impl FnOnce(&mut (Rules, Addresses))) -> bool {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut known);
        let rules = known.0.at(&known.1);
        let mut now = self.0.now.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = **now != rules;
        *now = Arc::new(rules);
        has_changed
    }
}

/// Whether this is the network namespace of that name or file; see ip-netns(8).
fn is_here(namespace: &str) -> io::Result<bool> {
    Ok(network_named(Path::new(namespace))? == network_inode()?)
}

fn addresses(kernel: &Snapshot) -> Addresses {
    let of_link = |index: u32| kernel.addresses_of(index).into_iter().map(|cidr| cidr.ip).collect();
    kernel.links.iter().map(|(&index, link)| (link.name.clone(), of_link(index))).collect()
}

#[cfg(test)]
mod tests {
    use ringway_engine::Transport;

    use super::*;
    use crate::config::Config;
    use crate::netlink::{Address, Link};

    fn rules(text: &str) -> Rules {
        Config::parse("t.toml", text, Vec::new()).expect("the rules are right").rules().clone()
    }

    /// A kernel with interface `eth0`, which has this address.
    fn kernel(address: &str) -> Snapshot {
        let mut kernel = Snapshot::default();
        let eth0 = Link {
            index: 7,
            name: "eth0".to_owned(),
            mac: ringway_stack::MacAddress([0; 6]),
            mtu: 1_500,
            up: true,
            loopback: false,
            ethernet: true,
            queued: false,
            kind: String::new(),
            is_in_vrf: false,
        };
        kernel.links.insert(7, eth0);
        let cidr = address.parse().expect("an address");
        kernel.addresses.push(Address { link: 7, cidr, tentative: false, deprecated: false });
        kernel
    }

    fn serves(policy: &Policy, ip: &str) -> bool {
        policy.rules().judge_port(Transport::Tcp, ip.parse().expect("an address"), 80).serves()
    }

    #[test]
    fn rules_follow_the_addresses_of_interfaces() {
        let some = rules("[[rule]]\naction = \"kernel\"\ninterface = \"eth0\"\n");
        let policy = Policy::new(&some, &kernel("10.0.0.1/24"), 0).expect("it needs nothing");
        assert!(!serves(&policy, "10.0.0.1") && serves(&policy, "10.0.0.2"));
        assert!(!policy.follow(&kernel("10.0.0.1/16")), "the same address");
        assert!(policy.follow(&kernel("10.0.0.2/24")));
        assert!(serves(&policy, "10.0.0.1") && !serves(&policy, "10.0.0.2"));
        assert!(policy.install(&Rules::default()) && serves(&policy, "10.0.0.2"));
        assert!(!policy.install(&Rules::default()), "the same rules");
    }

    #[test]
    fn connections_of_a_rule_share_one_rate_also_when_the_rule_comes_again() {
        let slow = "[[rule]]\naction = \"accelerate\"\nport = 80\ntotal_rate = \"8mbit\"\n";
        let policy = Policy::new(&rules(slow), &Snapshot::default(), 0).expect("it needs nothing");
        let rate = |policy: &Policy| match policy.rules().judge_port(Transport::Tcp, IpAddr::from([10, 0, 0, 1]), 80) {
            ringway_engine::Verdict::Serve(terms) => terms.shared_rates[0],
            other => panic!("{other:?}"),
        };
        let first = rate(&policy).expect("it has one");
        assert_eq!(first.rate(), 1_000_000);
        assert!(policy.install(&Rules::default()) && rate(&policy).is_none());
        assert!(policy.install(&rules(slow)) && rate(&policy) == Some(first));
        assert!(policy.install(&rules(&slow.replace("8m", "16m"))) && rate(&policy).is_some_and(|rate| rate.rate() == 2_000_000));
    }

    #[test]
    fn rules_of_other_network_namespaces_are_not_followed() {
        let of = |namespace: &str| rules(&format!("[[rule]]\naction = \"kernel\"\nnamespace = \"{namespace}\"\n"));
        let policy = Policy::new(&of("/proc/self/ns/net"), &Snapshot::default(), 1).expect("descriptors are left");
        assert!(!serves(&policy, "10.0.0.1"));
        assert!(policy.install(&of("/proc/self/ns/uts")) && serves(&policy, "10.0.0.1"));
        assert!(!policy.install(&of("no-such-name")), "there is none of this name");
        let mut rung = [rustix::event::PollFd::from_borrowed_fd(policy.wake_fd(0), rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut rung, Some(&now)), Ok(1), "the broker is told");
    }
}
