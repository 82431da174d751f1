//! Counts samples by core and class.
//!
//! Promises: only descendants of the measured run and the kernel's softirq threads on their cores are
//! counted; shares are of the busy samples; idle, foreign and unmapped samples are counted apart.

use std::collections::{BTreeMap, BTreeSet};

use super::classes::{CLASSES, Class, Table};
use super::script::{Event, Sample};

/// The name for functions without a class.
pub(super) const UNMAPPED: &str = "unmapped";

/// Samples of one target.
#[derive(Debug)]
pub(super) struct SampleCounts {
    recorder: i32,
    /// The recorder and its child, which runs the measurement: neither is measured.
    measuring: BTreeSet<i32>,
    /// Their descendants, which are measured.
    family: BTreeSet<i32>,
    /// Samples by core.
    pub(super) cores: BTreeMap<u32, Core>,
    /// Samples by innermost function and its class; `None`: unmapped.
    functions: BTreeMap<(Option<&'static str>, String), u64>,
}

/// One core's samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Core {
    by_class: [u64; CLASSES.len()],
    pub(super) unmapped: u64,
    pub(super) idle: u64,
    /// Samples of processes outside the measurement.
    pub(super) foreign: u64,
}

impl Core {
    /// Samples of the measured processes.
    pub(super) fn busy(&self) -> u64 {
        self.by_class.iter().sum::<u64>() + self.unmapped
    }

    /// Share of a class in the busy samples, percent.
    pub(super) fn share(&self, class: Class) -> f64 {
        let at = CLASSES.iter().position(|other| *other == class);
        percent(at.map_or(0, |at| self.by_class[at]), self.busy())
    }

    /// Share of the unmapped samples in the busy samples, percent.
    pub(super) fn unmapped_share(&self) -> f64 {
        percent(self.unmapped, self.busy())
    }

    /// Share of the busy samples in all samples of the core, percent.
    pub(super) fn utilization(&self) -> f64 {
        percent(self.busy(), self.busy() + self.idle + self.foreign)
    }

    /// Share of other processes' samples in all samples of the core, percent.
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

impl SampleCounts {
    /// Creates an empty counts; `recorder` is the process id of perf.
    pub(super) fn new(recorder: i32) -> SampleCounts {
        SampleCounts {
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

    /// The sum over all cores.
    pub(super) fn whole(&self) -> Core {
        let mut whole = Core::default();
        self.cores.values().for_each(|core| whole.add(core));
        whole
    }

    /// The most frequent innermost functions: (class, function, samples).
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
