//! Runs the points of a scenario on all targets in turn (A B A B), so that changes of the machine affect all alike.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::bed::{Bed, Ends, Sample, Setup, server_core};
use crate::distant::{Distant, Machine};
use crate::load::tuning::Tuning;
use crate::measure::calibration::Calibration;
use crate::measure::machine;
use crate::measure::noise::Disturbance;
use crate::options::Options;
use crate::point::{Point, Series, Setting};
use crate::progress::Progress;
use crate::rounds::Rounds;
use crate::row::Row;
use crate::target::Target;

/// Share of a run's beginning that is not measured, in which caches, windows and connections warm up.
const WARMUP_SHARE: f64 = 0.15;
/// Estimated overhead of a round, until one has finished.
const OVERHEAD: Duration = Duration::from_millis(60);
/// Number of runs to find a peak.
const PEAK_RUNS: u64 = 3;

/// Measures points on targets in turn.
pub struct Runner<'a> {
    options: &'a Options,
    setting: Setting,
    rounds: u32,
    seconds: f64,
    /// Fastest run of the calibration loop on the server's core so far, nanoseconds.
    fastest_ns: f64,
    progress: Progress,
    /// The machine of the servers; `None`: this one.
    machine: Option<Rc<Machine>>,
}

impl<'a> Runner<'a> {
    /// Creates a runner for a scenario.
    ///
    /// # Errors
    /// The server's core cannot be used.
    pub fn new(scenario: &str, options: &'a Options, rounds: u32, seconds: f64) -> io::Result<Runner<'a>> {
        let progress = Progress::new(scenario, options.quiet, Duration::from_secs_f64(seconds * (1.0 + WARMUP_SHARE)) + OVERHEAD);
        let machine = options
            .peer
            .as_ref()
            .map(|peer| Machine::reach(peer, options.peer_address)?.with_clients(&options.clients))
            .transpose()?;
        let machine = machine.map(Rc::new);
        let calibration = machine.as_ref().map_or_else(|| Calibration::of_core(server_core()), |machine| machine.calibrate())?;
        let mut setting = Setting {
            scenario: scenario.to_string(),
            wire: options.wire_name(),
            client: options.client_stack().name(),
            machine: machine::processor(),
            kernel: machine::kernel(),
            commit: machine::commit().to_string(),
            frequency_ghz: calibration.frequency_ghz(),
            ends: BTreeMap::new(),
        };
        if let Some(machine) = &machine {
            machine.describe(&mut setting);
            progress.say(&machine.introduction());
        }
        Ok(Runner { options, setting, rounds, seconds, fastest_ns: calibration.fastest_ns, progress, machine })
    }

    /// Starts the ends of a target.
    fn start(&self, target: Target, setup: &Setup, connections: u32) -> io::Result<Box<dyn Ends>> {
        Ok(match &self.machine {
            Some(machine) => Box::new(Distant::start(target, self.options, setup, machine)?),
            None => Box::new(Bed::start(target, self.options, setup, connections)?),
        })
    }

    /// Fields common to all rows.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Measures all points and passes each row to `give` as soon as it is known.
    ///
    /// # Errors
    /// A bed could not be created or a role failed; earlier rows were passed on.
    pub fn run(&mut self, targets: &[Target], points: &[Point], give: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
        let names: Vec<String> = targets.iter().map(|target| target.name()).collect();
        self.progress.say(&format!("starting {}", names.join(", ")));
        self.progress.begin(points.len() as u32 * targets.len() as u32 * self.rounds);
        for points in points.chunk_by(|one, next| one.setup == next.setup) {
            self.run_alike(targets, points, give)?;
        }
        Ok(())
    }

    /// Runs points that need the same wire and socket options.
    fn run_alike(&mut self, targets: &[Target], points: &[Point], give: &mut dyn FnMut(Row) -> io::Result<()>) -> io::Result<()> {
        let (mut beds, mut refused) = (Vec::new(), Vec::new());
        let most = points.iter().map(|point| point.plan.connections).max().unwrap_or(1);
        let setup = points[0].setup;
        for target in targets {
            if let Some(why) = unavailable(*target, &setup.tuning, self.machine.as_deref()) {
                refused.push((target.name(), why));
                continue;
            }
            match self.start(*target, &setup, most) {
                Ok(mut bed) => {
                    bed.pause();
                    beds.push(bed);
                }
                Err(error) if target.may_be_missing() || !target.has_workers() && self.options.workers() > 1 => {
                    refused.push((target.name(), error.to_string()))
                }
                Err(error) => return Err(error),
            }
        }
        self.progress.forget((refused.len() * points.len()) as u32 * self.rounds);
        for point in points {
            let series = self.measure(&mut beds, point)?;
            let linux = beds.iter().position(|bed| bed.target() == Target::Linux).map(|index| &series[index]);
            for (bed, series) in beds.iter().zip(&series) {
                self.progress.aside(|| give(point.row(&self.setting, &bed.target().name(), series, linux)))?;
            }
            for (target, why) in &refused {
                self.progress.aside(|| give(point.absent(&self.setting, target, why)))?;
            }
        }
        Ok(())
    }

    /// Measures the kernel's value at a point: the median of `PEAK_RUNS` runs.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn peak_of_kernel(&mut self, point: &Point) -> io::Result<f64> {
        self.progress.say("measuring the kernel's peak");
        let mut bed = self.start(Target::Linux, &point.setup, point.plan.connections)?;
        bed.prepare(&point.plan)?;
        let mut series = Series::default();
        for run in 0..PEAK_RUNS {
            series.samples.push(self.sample(&mut *bed, run)?.0);
        }
        let value = point.row(&self.setting, "", &series, None).value;
        self.progress.say(&format!("the kernel's peak is {value} {}", point.unit()));
        Ok(value)
    }

    fn measure(&mut self, beds: &mut [Box<dyn Ends>], point: &Point) -> io::Result<Vec<Series>> {
        let mut before = Vec::new();
        for bed in beds.iter_mut() {
            before.push(bed.counts()?);
            bed.resume();
            bed.prepare(&point.plan)?;
            bed.pause();
        }
        let mut rounds = Rounds::new(self.rounds, self.options.patience);
        while rounds.missing() > 0 {
            let (number, missing) = (rounds.next_number(), rounds.missing());
            let mut round = Vec::new();
            for bed in beds.iter_mut() {
                let which = match number.saturating_sub(self.rounds) {
                    0 => format!("round {number} of {}", self.rounds),
                    repetition => format!("repetition {repetition} of disturbed rounds"),
                };
                self.progress.say_step(&format!("{}: {}, {which}", point.label, bed.target().name()));
                round.push(self.sample(&mut **bed, u64::from(number))?);
                self.progress.step();
            }
            rounds.add(round);
            // Before it was added, this round was one of the missing ones.
            self.progress.expect((rounds.missing() + 1 - missing) as u32 * beds.len() as u32);
        }
        let mut series = vec![Series { repeated: rounds.repeated(), ..Series::default() }; beds.len()];
        for round in rounds.keep() {
            for ((sample, disturbance), series) in round.into_iter().zip(&mut series) {
                series.samples.push(sample);
                series.disturbance = series.disturbance.worse(disturbance);
            }
        }
        for ((bed, series), before) in beds.iter_mut().zip(&mut series).zip(before) {
            bed.resume();
            bed.release()?;
            bed.pause();
            let counts = bed.counts()?.since(before);
            (series.retransmissions, series.drops) = (Some(counts.retransmissions), Some(counts.drops));
            series.note = bed.remark()?;
        }
        Ok(series)
    }

    fn sample(&mut self, bed: &mut dyn Ends, seed: u64) -> io::Result<(Sample, Disturbance)> {
        let before = bed.calibrate()?;
        let warmup = Duration::from_secs_f64(self.seconds * WARMUP_SHARE);
        let measure = Duration::from_secs_f64(self.seconds);
        bed.resume();
        let sample = bed.run(warmup, measure, seed)?;
        bed.pause();
        let after = bed.calibrate()?;
        self.fastest_ns = self.fastest_ns.min(before.fastest_ns).min(after.fastest_ns);
        let whole_ns = (warmup + measure).as_nanos() as f64;
        let share = |ns: u64| ns as f64 / whole_ns;
        let disturbance = Disturbance {
            calibration: before.median_ns.max(after.median_ns) / self.fastest_ns - 1.0,
            steal: share(sample.server.core.steal_ns.max(sample.client.core.steal_ns)),
            others: share(bed.others_ns(&sample)),
        };
        Ok((sample, disturbance))
    }
}

/// Returns why a target cannot apply these socket options; `None` when it can.
fn unavailable(target: Target, tuning: &Tuning, machine: Option<&Machine>) -> Option<String> {
    if target == Target::Service && *tuning != Tuning::default() {
        return Some("the server through a channel has no socket options".into());
    }
    let congestion = tuning.congestion?;
    if target == Target::Embedded && !congestion.is_kernels() {
        return None;
    }
    // The client uses the kernel's stack, too, so this applies to all targets.
    let wanted = congestion.name();
    let text = fs::read_to_string(AVAILABLE).unwrap_or_default();
    let has_it = text.split_whitespace().any(|name| name == wanted);
    if has_it && machine.is_some_and(|machine| !machine.has_congestion_control(wanted)) {
        return Some(format!("the server's kernel has no congestion control {wanted}"));
    }
    (!has_it).then(|| format!("this kernel has no congestion control {wanted}"))
}

/// The kernel's list of congestion controls.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
