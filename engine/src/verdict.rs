//! What the rules of the machine say of a port or a connection: those of its packet filters and of the configuration.
//!
//! Does not do: judging; the implementation of [`Ports`](crate::Ports) does.

use ringway_channel::{Failure, KernelReason};
use ringway_stack::{CongestionControl, SharedRates, TcpOptions};

/// The answer to a question about a port or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stack may have its packets, on these terms.
    Serve(Terms),
    /// The kernel has them, for this reason.
    Kernel(KernelReason),
    /// No program gets it through Ringway: EACCES.
    Deny,
}

impl Verdict {
    /// Returns true if the stack may have the packets.
    pub const fn serves(self) -> bool {
        matches!(self, Verdict::Serve(_))
    }

    /// Returns true if a rule of the configuration leaves it to the kernel.
    pub(crate) fn leaves(self) -> bool {
        self == Verdict::Kernel(KernelReason::Rule)
    }

    /// This verdict, where `group`, that on the whole application, is no other than that it is served.
    pub(crate) fn within(self, group: Verdict) -> Verdict {
        if group.serves() { self } else { group }
    }

    /// The terms, or the failure of a request that is not granted.
    pub(crate) fn granted(self) -> Result<Terms, Failure> {
        match self {
            Verdict::Serve(terms) => Ok(terms),
            Verdict::Kernel(reason) => Err(Failure::from(reason)),
            Verdict::Deny => Err(Failure::Denied),
        }
    }

    /// The verdict on all addresses of a socket, of which each has one. Served where one of them is: the kernel's socket gets the
    /// packets of the others, so that one that denies denies all.
    pub(crate) fn of_any(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
        Verdict::of_several(verdicts, |terms, _| Verdict::Serve(terms))
    }

    /// The same of a socket that is served where all of its addresses are.
    pub(crate) fn of_all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
        Verdict::of_several(verdicts, |_, reason| Verdict::Kernel(reason))
    }

    /// `mixed` decides of one that serves and one that does not.
    fn of_several(verdicts: impl Iterator<Item = Verdict>, mixed: impl Fn(Terms, KernelReason) -> Verdict) -> Verdict {
        verdicts
            .reduce(|all, next| match (all, next) {
                (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
                (Verdict::Serve(some), Verdict::Serve(others)) => Verdict::Serve(some.and(others)),
                (Verdict::Serve(terms), Verdict::Kernel(reason)) | (Verdict::Kernel(reason), Verdict::Serve(terms)) => {
                    mixed(terms, reason)
                }
                (Verdict::Kernel(reason), Verdict::Kernel(_)) => Verdict::Kernel(reason),
            })
            .unwrap_or_default()
    }
}

impl Default for Verdict {
    /// What holds without any rule.
    fn default() -> Verdict {
        Verdict::Serve(Terms::default())
    }
}

/// Conditions on which connections are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// That of sockets whose program has not asked for another one than the service's.
    pub congestion_control: Option<CongestionControl>,
    /// Bytes that one connection sends in a second at most; 0: no limit.
    pub rate_max: u64,
    /// Rates that it shares with others.
    pub shared_rates: SharedRates,
}

impl Terms {
    /// Both terms: the congestion control of `nearer`, if it has one, the lower rate, and the first rates that are shared, of which each of
    /// the two has one at most.
    #[must_use]
    pub fn and(self, nearer: Terms) -> Terms {
        let mut shared = self.shared_rates.into_iter().chain(nearer.shared_rates).flatten();
        let first = shared.next();
        Terms {
            congestion_control: nearer.congestion_control.or(self.congestion_control),
            rate_max: lower(self.rate_max, nearer.rate_max),
            shared_rates: [first, shared.find(|other| Some(*other) != first)],
        }
    }

    /// Returns true if it shares a rate with others.
    pub(crate) fn shares(&self) -> bool {
        self.shared_rates.iter().any(Option::is_some)
    }

    /// Changes the options of a socket to these terms. Its program has asked for `rate` (0: for none), and for a congestion control if that is
    /// not `default`.
    pub(crate) fn bind(self, options: &mut TcpOptions, default: CongestionControl, rate: u64) {
        if let Some(wanted) = self.congestion_control
            && options.congestion_control == default
        {
            options.congestion_control = wanted;
        }
        options.pacing_rate_max = lower(rate, self.rate_max);
        options.shared_rates = self.shared_rates;
    }
}

/// What rules of the configuration say of an application group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// Whether it is served: of what it opens from now on.
    pub verdict: Verdict,
    /// What it may have, if it is.
    pub allowance: Allowance,
}

/// What rules of the configuration allow an application group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Terms of its connections, beside those of each.
    pub terms: Terms,
    /// Sockets at most, where that is less than the quota of each group.
    pub sockets: u32,
    /// Processes at most, likewise.
    pub processes: u32,
}

impl Default for Allowance {
    /// What holds without any rule.
    fn default() -> Allowance {
        Allowance { terms: Terms::default(), sockets: u32::MAX, processes: u32::MAX }
    }
}

/// The lower of two limits of which 0 is none.
pub(crate) fn lower(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

#[cfg(test)]
mod tests {
    use ringway_stack::SharedRate;

    use super::*;

    const NONE: SharedRates = [None; 2];
    const FAST: Terms = Terms { congestion_control: Some(CongestionControl::Bbr), rate_max: 0, shared_rates: NONE };
    const SLOW: Terms = Terms { congestion_control: None, rate_max: 1_000, shared_rates: NONE };

    fn of_both(one: Verdict, other: Verdict) -> (Verdict, Verdict) {
        (Verdict::of_any([one, other].into_iter()), Verdict::of_all([other, one].into_iter()))
    }

    #[test]
    fn a_socket_of_several_addresses_has_one_verdict() {
        let (serve, kernel) = (Verdict::Serve(FAST), Verdict::Kernel(KernelReason::Rule));
        assert_eq!(of_both(serve, kernel), (serve, kernel));
        assert_eq!(of_both(kernel, serve), (serve, kernel));
        assert_eq!(of_both(serve, Verdict::Deny), (Verdict::Deny, Verdict::Deny));
        assert_eq!(of_both(Verdict::Deny, kernel), (Verdict::Deny, Verdict::Deny));
        let both = Verdict::Serve(Terms { rate_max: 1_000, ..FAST });
        assert_eq!(of_both(serve, Verdict::Serve(SLOW)), (both, both));
        assert_eq!(Verdict::of_any(std::iter::empty()), Verdict::default());
    }

    #[test]
    fn terms_leave_a_program_what_it_has_chosen_and_no_higher_rate() {
        let default = CongestionControl::Cubic;
        let bound = |terms: Terms, congestion_control, rate| {
            let mut options = TcpOptions { congestion_control, ..TcpOptions::default() };
            terms.bind(&mut options, default, rate);
            (options.congestion_control, options.pacing_rate_max)
        };
        assert_eq!(bound(FAST, default, 0), (CongestionControl::Bbr, 0));
        assert_eq!(bound(FAST, CongestionControl::NewReno, 0), (CongestionControl::NewReno, 0));
        assert_eq!(bound(SLOW, default, 0), (default, 1_000));
        assert_eq!(bound(SLOW, default, 500), (default, 500));
        assert_eq!(bound(SLOW, default, 5_000), (default, 1_000));
    }

    #[test]
    fn rates_of_both_rules_are_shared() {
        static ONE: SharedRate = SharedRate::new(1);
        static OTHER: SharedRate = SharedRate::new(1);
        let of = |rate| Terms { shared_rates: [Some(rate), None], ..Terms::default() };
        assert_eq!(of(&ONE).and(of(&OTHER)).shared_rates, [Some(&ONE), Some(&OTHER)]);
        assert_eq!(of(&ONE).and(of(&ONE)).shared_rates, [Some(&ONE), None]);
        assert_eq!(Terms::default().and(of(&OTHER)).shared_rates, [Some(&OTHER), None]);
    }
}
