//! The offloads of a card that an XDP program turned off, and turning them on again.
//!
//! Generic XDP switches LRO and hardware GRO off, and the kernel leaves them off when the program is gone (net/core/dev.c,
//! dev_xdp_install). Promises: a feature that was wanted before the attachment, and that the attachment switched off, is wanted
//! again afterwards; what an operator changes while the program is attached stays as it is. Does not do: a service that is
//! killed restores nothing.

use crate::interface::{Features, features, want_features};

pub(super) struct Offloads {
    interface: String,
    /// The features that were wanted before; `None`: the driver does not say.
    before: Option<Features>,
    /// The features that the attachment took away.
    lost: Features,
}

impl Offloads {
    /// Records the features of `interface` now, before a program is attached.
    pub(super) fn before(interface: &str) -> Offloads {
        Offloads { interface: interface.to_owned(), before: features(interface).ok(), lost: Features::default() }
    }

    /// The program is attached.
    pub(super) fn attached(&mut self) {
        if let (Some(before), Ok(now)) = (self.before.take(), features(&self.interface)) {
            self.lost = before.without(&now);
        }
    }

    /// The program is gone.
    pub(super) fn restore(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if !lost.is_empty() {
            // `Err`: the interface is gone, or the process may not change it any more.
            want_features(&self.interface, &lost).ok();
        }
    }
}
