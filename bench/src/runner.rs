//! Runs the points of a scenario on all targets in turn: A B A B, so that what changes meanwhile changes both.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::bed::{Bed, Sample, server_core};
use crate::measure::calibration::Calibration;
use crate::measure::machine;
use crate::measure::noise::Disturbance;
use crate::options::Options;
use crate::point::{Point, Series, Setting};
use crate::row::Row;
use crate::target::Target;

/// Not measured at the beginning of a run: caches, windows and connections get warm.
const WARMUP_SHARE: f64 = 0.15;
/// What a round costs beyond its seconds, for the remaining time.
const OVERHEAD: Duration = Duration::from_millis(60);

/// Targets in turn over points.
pub struct Runner<'a> {
    options: &'a Options,
    setting: Setting,
    rounds: u32,
    seconds: f64,
    /// The fastest that the calibration loop ever was on the server's core, nanoseconds.
    fastest_ns: f64,
    begun: Instant,
    runs_left: u32,
}

impl<'a> Runner<'a> {
    /// For a scenario of this name with so many points.
    ///
    /// # Errors
    /// The server's core cannot be used.
    pub fn new(scenario: &str, options: &'a Options, rounds: u32, seconds: f64) -> io::Result<Runner<'a>> {
        let calibration = Calibration::of_core(server_core())?;
        let setting = Setting {
            scenario: scenario.to_string(),
            wire: options.wire.name(),
            client: options.client_stack().name(),
            machine: machine::processor(),
            kernel: machine::kernel(),
            commit: machine::commit().to_string(),
            frequency_ghz: calibration.frequency_ghz(),
        };
        let fastest_ns = calibration.fastest_ns;
        Ok(Runner { options, setting, rounds, seconds, fastest_ns, begun: Instant::now(), runs_left: 0 })
    }

    /// What all rows have in common.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Measures all points and gives each row away as soon as it is known.
    ///
    /// # Errors
    /// A bed could not be made or a role failed; rows that were known have been given away.
    pub fn run(&mut self, targets: &[Target], points: &[Point], give: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
        self.runs_left = points.len() as u32 * targets.len() as u32 * self.rounds;
        self.say(&format!("starting {}", targets.iter().map(|target| target.name()).collect::<Vec<_>>().join(", ")));
        let mut beds = Vec::new();
        let most = points.iter().map(|point| point.plan.connections).max().unwrap_or(1);
        for target in targets {
            let bed = Bed::start(*target, self.options, most)?;
            bed.pause();
            beds.push(bed);
        }
        self.begun = Instant::now();
        for point in points {
            let series = self.measure(&mut beds, point)?;
            let linux = targets.iter().position(|target| *target == Target::Linux).map(|index| &series[index]);
            for (bed, series) in beds.iter().zip(&series) {
                give(point.row(&self.setting, &bed.target().name(), series, linux))?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, beds: &mut [Bed], point: &Point) -> io::Result<Vec<Series>> {
        let mut series = vec![Series::default(); beds.len()];
        let mut before = Vec::new();
        for bed in beds.iter_mut() {
            before.push((bed.retransmissions()?, bed.kernel_segments()?));
            bed.resume();
            bed.prepare(&point.plan)?;
            bed.pause();
        }
        for round in 1..=self.rounds {
            for (bed, series) in beds.iter_mut().zip(&mut series) {
                self.say(&format!("{}: {}, round {round} of {}{}", point.label, bed.target().name(), self.rounds, self.left()));
                let (sample, disturbance) = self.sample(bed, round)?;
                series.samples.push(sample);
                series.disturbance = series.disturbance.worse(disturbance);
                self.runs_left = self.runs_left.saturating_sub(1);
            }
        }
        for ((bed, series), before) in beds.iter_mut().zip(&mut series).zip(before) {
            bed.resume();
            bed.release()?;
            bed.pause();
            series.retransmissions = Some(bed.retransmissions()?.saturating_sub(before.0));
            let segments = bed.kernel_segments()? - before.1;
            if bed.is_ringways_alone() && segments > 0 {
                series.note = format!("the kernel's TCP received {segments} segments: not all was Ringway's");
            }
        }
        Ok(series)
    }

    fn sample(&mut self, bed: &mut Bed, round: u32) -> io::Result<(Sample, Disturbance)> {
        let before = Calibration::of_core(server_core())?;
        let warmup = Duration::from_secs_f64(self.seconds * WARMUP_SHARE);
        let measure = Duration::from_secs_f64(self.seconds);
        bed.resume();
        let sample = bed.run(warmup, measure, u64::from(round))?;
        bed.pause();
        let after = Calibration::of_core(server_core())?;
        self.fastest_ns = self.fastest_ns.min(before.fastest_ns).min(after.fastest_ns);
        let whole_ns = (warmup + measure).as_nanos() as f64;
        let share = |ns: u64| ns as f64 / whole_ns;
        let disturbance = Disturbance {
            calibration: before.median_ns.max(after.median_ns) / self.fastest_ns - 1.0,
            steal: share(sample.server.core.steal_ns.max(sample.client.core.steal_ns)),
            others: share(sample.server.others_ns().max(sample.client.others_ns())),
        };
        Ok((sample, disturbance))
    }

    /// The remaining time, for people.
    fn left(&self) -> String {
        let one = Duration::from_secs_f64(self.seconds * (1.0 + WARMUP_SHARE)) + OVERHEAD;
        let left = one * self.runs_left;
        let done = self.begun.elapsed();
        format!("; {} s so far, about {} s left", done.as_secs(), left.as_secs().max(1))
    }

    fn say(&self, words: &str) {
        if !self.options.quiet {
            // Progress is a courtesy: nobody may be listening.
            writeln!(io::stderr(), "ringway bench {}: {words}", self.setting.scenario).unwrap_or_default();
        }
    }
}
