//! Samples counted by core and class.
//!
//! Promises: only processes that descend from the measured run count, and the kernel's softirq threads
//! on their cores; shares are of the busy samples, and idle, foreign and unmapped ones are told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::classes::{CLASSES, Class, Table};
use super::script::{Event, Sample};

/// What stands for the class of a function that has none.
pub(super) const UNMAPPED: &str = "unmapped";

/// What was found for one target.
#[derive(Debug)]
pub(super) struct Tally {
    recorder: i32,
    /// The recorder and its child, which runs the measurement: neither is measured.
    measuring: BTreeSet<i32>,
    /// Whoever descends from them.
    family: BTreeSet<i32>,
    /// By core.
    pub(super) cores: BTreeMap<u32, Core>,
    /// How often each function was the innermost, by its class; `None`: unmapped.
    functions: BTreeMap<(Option<&'static str>, String), u64>,
}

/// One core's samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Core {
    by_class: [u64; CLASSES.len()],
    pub(super) unmapped: u64,
    pub(super) idle: u64,
    /// Of processes that are no part of the measurement.
    pub(super) foreign: u64,
}

impl Core {
    /// Samples of the measured processes.
    pub(super) fn busy(&self) -> u64 {
        self.by_class.iter().sum::<u64>() + self.unmapped
    }

    /// A class's part of the busy samples, percent.
    pub(super) fn share(&self, class: Class) -> f64 {
        let at = CLASSES.iter().position(|other| *other == class);
        percent(at.map_or(0, |at| self.by_class[at]), self.busy())
    }

    /// What no rule names, percent of the busy samples.
    pub(super) fn unmapped_share(&self) -> f64 {
        percent(self.unmapped, self.busy())
    }

    /// Busy samples by all samples of the core, percent.
    pub(super) fn utilization(&self) -> f64 {
        percent(self.busy(), self.busy() + self.idle + self.foreign)
    }

    /// Samples of other processes by all samples of the core, percent.
    pub(super) fn foreign_share(&self) -> f64 {
        percent(self.foreign, self.busy() + self.idle + self.foreign)
    }

    /// Adds another core's samples.
    pub(super) fn add(&mut self, other: &Core) {
        self.by_class.iter_mut().zip(other.by_class).for_each(|(mine, theirs)| *mine += theirs);
        self.unmapped += other.unmapped;
        self.idle += other.idle;
        self.foreign += other.foreign;
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

impl Tally {
    /// An empty one; `recorder` is the process of perf.
    pub(super) fn new(recorder: i32) -> Tally {
        Tally {
            recorder,
            measuring: BTreeSet::from([recorder]),
            family: BTreeSet::new(),
            cores: BTreeMap::new(),
            functions: BTreeMap::new(),
        }
    }

    /// Counts one event.
    pub(super) fn take(&mut self, event: Event, table: &Table) {
        match event {
            Event::Fork { parent, child } => {
                if parent == self.recorder {
                    self.measuring.insert(child);
                } else if child != parent && (self.measuring.contains(&parent) || self.family.contains(&parent)) {
                    self.family.insert(child);
                }
            }
            Event::Sample(sample) => self.count(&sample, table),
        }
    }

    fn count(&mut self, sample: &Sample, table: &Table) {
        let core = self.cores.entry(sample.core).or_default();
        if sample.process == 0 {
            core.idle += 1;
            return;
        }
        let is_ours = self.family.contains(&sample.process);
        if !is_ours && !sample.command.starts_with("ksoftirqd/") {
            core.foreign += 1;
            return;
        }
        let class = table.class_of(&sample.chain);
        match class {
            Some(Class::Idle) => return core.idle += 1,
            Some(class) => core.by_class[CLASSES.iter().position(|other| *other == class).expect("all but idle are listed")] += 1,
            None => core.unmapped += 1,
        }
        let name = sample.chain.first().map_or("no call chain".to_string(), |frame| format!("{} ({})", frame.symbol, frame.file));
        *self.functions.entry((class.map(Class::name), name)).or_default() += 1;
    }

    /// All cores together.
    pub(super) fn whole(&self) -> Core {
        let mut whole = Core::default();
        self.cores.values().for_each(|core| whole.add(core));
        whole
    }

    /// The innermost functions, the most frequent first: (class, function, samples).
    pub(super) fn functions(&self, count: usize) -> Vec<(&'static str, &str, u64)> {
        let named = self.functions.iter().map(|((class, name), seen)| (class.unwrap_or(UNMAPPED), name.as_str(), *seen));
        let mut all: Vec<(&'static str, &str, u64)> = named.collect();
        all.sort_by_key(|(class, name, seen)| (std::cmp::Reverse(*seen), *class, *name));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests;
