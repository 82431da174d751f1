//! The offloads of a card that an XDP program turned off, and turning them on again.
//!
//! Generic XDP switches LRO and hardware GRO off, and the kernel leaves them off when the program is gone (net/core/dev.c,
//! dev_xdp_install); a driver may do the same with native XDP (vmxnet3_xdp.c). Promises: a feature that was on before the attachment,
//! and that the attachment switched off, is wanted again afterwards, which switches it on; what an operator changes while the program is attached stays as it is. A process that is killed restores
//! nothing: what it took stands in the [`Journal`] from before the attachment on, and another one restores it ([`LostOffloads::restore`]). Does not
//! do: keep the journal.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::interface::{Features, Interface, features, features_off, index, want_features};

/// Offloads of a card that are to be wanted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostOffloads {
    /// The interface's name.
    pub interface: String,
    /// Its number.
    pub index: u32,
    /// The features by the kernel's numbers, 32 in a word.
    pub features: Vec<u32>,
}

impl LostOffloads {
    /// Wants them again; returns false where the interface is not there any more.
    ///
    /// # Errors
    /// No CAP_NET_ADMIN.
    pub fn restore(&self) -> io::Result<bool> {
        let is_there = self.is_there();
        if is_there {
            want_features(&self.interface, &Features::of(&self.features))?;
        }
        Ok(is_there)
    }

    /// Returns the names of those that are off now; none where the interface is not there any more.
    pub fn off(&self) -> Vec<String> {
        if !self.is_there() {
            return Vec::new();
        }
        features_off(&self.interface, &Features::of(&self.features)).unwrap_or_default()
    }

    /// A number is not given to another interface soon; a name may be.
    fn is_there(&self) -> bool {
        index(&self.interface).is_ok_and(|index| index == self.index)
    }
}

/// What cards have lost, written where it outlives the process.
pub trait Journal: fmt::Debug + Send + Sync {
    /// Notes what an interface has lost from now on, in place of what was noted; nothing, where no feature is named.
    ///
    /// # Errors
    /// It cannot be written.
    fn note(&self, lost: &LostOffloads) -> io::Result<()>;
}

/// An interface: the features that are wanted of it and on.
trait Card: Send + Sync {
    fn features(&self) -> io::Result<Features>;
    fn want(&self, more: &Features) -> io::Result<()>;
}

impl Card for String {
    fn features(&self) -> io::Result<Features> {
        features(self)
    }

    fn want(&self, more: &Features) -> io::Result<()> {
        want_features(self, more)
    }
}

pub(super) struct Offloads {
    card: Box<dyn Card>,
    /// The interface's name and number.
    interface: (String, u32),
    journal: Option<Arc<dyn Journal>>,
    /// The features that were on before; `None`: the driver does not say.
    before: Option<Features>,
    /// The features that the attachment took away.
    lost: Features,
}

impl Offloads {
    /// Records the features of `interface` now, before a program is attached; the process may be killed at any time after.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn before(interface: &Interface, journal: Option<Arc<dyn Journal>>) -> io::Result<Offloads> {
        Offloads::of(Box::new(interface.name.clone()), (interface.name.clone(), interface.index), journal)
    }

    fn of(card: Box<dyn Card>, interface: (String, u32), journal: Option<Arc<dyn Journal>>) -> io::Result<Offloads> {
        let before = card.features().ok();
        let offloads = Offloads { card, interface, journal, before, lost: Features::default() };
        if let Some(before) = &offloads.before {
            offloads.note(before)?;
        }
        Ok(offloads)
    }

    /// The program is attached.
    pub(super) fn attached(&mut self) {
        if let (Some(before), Ok(now)) = (self.before.take(), self.card.features()) {
            self.lost = before.without(&now);
            // `Err`: all that was on stays noted.
            self.note(&self.lost).ok();
        }
    }

    /// The program is gone.
    pub(super) fn restore(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        // `Err`: the interface is gone, or the process may not change it any more; then another process restores them.
        let is_restored = lost.is_empty() || self.card.want(&lost).is_ok() || self.card.features().is_err();
        if is_restored {
            // `Err`: features that are on are wanted once more some day.
            self.note(&Features::default()).ok();
        }
    }

    fn note(&self, features: &Features) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let (interface, index) = self.interface.clone();
        let features = if features.is_empty() { Vec::new() } else { features.words().to_vec() };
        journal.note(&LostOffloads { interface, index, features })
    }
}

#[cfg(test)]
mod tests;
