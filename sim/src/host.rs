//! A host: a stack, an impaired wire, an application, and the order of its steps in one iteration.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;

use ringway_device::Device;
use ringway_device::impair::Impair;
use ringway_device::offload::Offload;
use ringway_shm::{Arena, Burst, Class, Instant};
use ringway_stack::{Autoconfiguration, Cidr, Counter, Interface, MacAddress, Role, Route, Stack, StackConfig};

use crate::application::Application;
use crate::check::wire::{Watch, WireCheck};
use crate::check::{Failure, failure};
use crate::datagrams::Beside;
use crate::faults::Faults;
use crate::forge::Forge;
use crate::path::Path;
use crate::path::hop::Hop;
use crate::path::liar::{Liar, Lie};
use crate::path::rumor::Rumor;

/// Connection of a host to the wire.
pub struct Wiring {
    /// The end of the wire.
    pub wire: Box<dyn Device>,
    /// Arena into which the wire delivers.
    pub arena: Arena,
    /// Faults of the packets that the host sends.
    pub faults: Faults,
    /// Other middleware between the host and the wire.
    pub path: Path,
    /// The lie in the host's acknowledgments.
    pub lie: Option<Lie>,
    /// The wire's checker.
    pub check: Rc<RefCell<WireCheck>>,
}

impl Wiring {
    /// Returns the device: all middleware that a packet passes on its way out, the last one outermost.
    fn device(self, seed: u64) -> Watch {
        let Wiring { wire, arena, faults, path, lie, check } = self;
        let cuts = path.hop.is_some() && wire.capabilities().segmentation_max_bytes > 0;
        let impaired = Impair::new(wire, &arena, seed, faults.wire, Default::default());
        let hop: Box<dyn Device> = Box::new(Hop::new(Box::new(impaired), &arena, path.hop));
        let hop = if cuts { Box::new(Offload::cutting(hop, &arena)) } else { hop };
        let rumor = Rumor::new(hop, &arena, seed ^ RUMOR_SALT, path.rumor_ppm);
        let forging = Forge::new(Box::new(rumor), &arena, seed, faults.forged_ppm);
        let liar = Liar::new(Box::new(forging), &arena, seed ^ LIAR_SALT, lie);
        Watch::new(Box::new(liar), check)
    }
}

/// A separate random stream, so that the other draws of a seed stay as before.
const RUMOR_SALT: u64 = 0x5927;
const LIAR_SALT: u64 = 0x3465;

/// One host on the wire.
pub struct Host {
    /// Name in reports.
    pub name: &'static str,
    /// The stack under test.
    pub stack: Stack,
    /// Its frames.
    pub arena: Arena,
    /// Its application.
    pub application: Application,
    /// Its datagrams beside the application.
    pub beside: Option<Beside>,
    device: Watch,
    inbound: Burst,
    outbound: [Burst; 1],
}

impl Host {
    /// Makes the host 10.0.0.`number`/24 and fd00::`number`/64.
    pub fn new(name: &'static str, number: u8, config: StackConfig, wiring: Wiring, application: Application) -> Host {
        let capabilities = wiring.wire.capabilities();
        let arena = wiring.arena.clone();
        let mut stack = Stack::new(config.clone(), arena.clone(), Instant::ZERO);
        let interface = stack.add_interface(Interface {
            name: "wire0".into(),
            medium: capabilities.medium,
            mac: MacAddress([2, 0, 0, 0, 0, number]),
            mtu: capabilities.mtu,
            sends_partial_checksums: capabilities.sends_partial_checksums,
            segmentation_max_bytes: capabilities.segmentation_max_bytes,
            segmentation_max_segments: capabilities.segmentation_max_segments,
            segments_udp: capabilities.segments_udp,
            gathers: capabilities.gathers,
            role: Role::Owned,
            autoconfiguration: Autoconfiguration::Off,
            detects_duplicates: false,
            vlan: None,
        });
        let [network, network6] =
            [(false, 24), (true, 64)].map(|(ipv6, prefix_len)| Cidr { ip: Host::address(number, ipv6), prefix_len });
        stack.set_addresses(interface, vec![network, network6]);
        let route = |destination| Route { destination, gateway: None, interface, metric: 0, source: None };
        stack.set_routes(vec![route(network), route(network6)]);
        let device = wiring.device(config.seed);
        let (inbound, outbound) = (Burst::default(), [Burst::default()]);
        Host { name, stack, arena, application, beside: None, device, inbound, outbound }
    }

    /// Returns the address of the host `number`.
    pub fn address(number: u8, ipv6: bool) -> IpAddr {
        if ipv6 { Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into() } else { [10, 0, 0, number].into() }
    }

    /// Runs one iteration at `now`: packets in, timers, data that the window allows, application, packets out. Returns true
    /// when anything happened.
    ///
    /// # Errors
    /// When a checker of the application finds an error, or the device fails.
    pub fn turn(&mut self, now: Instant) -> Result<bool, Failure> {
        let device_error = |error| Failure(format!("device: {error}"));
        let received = self.device.receive(now, &mut self.inbound).map_err(device_error)?;
        self.stack.receive(now, 0, &mut self.inbound);
        if !self.inbound.is_empty() {
            return failure("receive left packets behind");
        }
        let due = self.stack.poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.stack.handle_timeout(now);
        }
        let mut more = self.stack.transmit(now, &mut self.outbound);
        let mut events = 0;
        while let Some(event) = self.stack.poll_event() {
            let theirs = self.beside.as_mut().is_some_and(|beside| beside.is_about(&event));
            if !theirs {
                self.application.on_event(now, &mut self.stack, event)?;
            }
            events += 1;
        }
        let mut worked = self.application.work(now, &mut self.stack)?;
        if let Some(beside) = &mut self.beside {
            worked |= beside.work(now, &mut self.stack)?;
        }
        more |= self.stack.transmit(now, &mut self.outbound);
        let sent = self.device.transmit(now, &mut self.outbound[0]).map_err(device_error)?;
        Ok(received > 0 || due || more || events > 0 || worked || sent > 0)
    }

    /// Returns true when its application and datagrams are done.
    pub fn is_done(&self) -> bool {
        self.application.is_done() && self.beside.as_ref().is_none_or(Beside::is_done)
    }

    /// Closes the datagrams' socket.
    pub fn close_beside(&mut self, now: Instant) {
        if let Some(beside) = self.beside.take() {
            self.stack.close(now, beside.id());
        }
    }

    /// Returns true when packets have arrived for the next iteration.
    pub fn has_waiting(&mut self) -> bool {
        self.device.arm()
    }

    /// Describes its state, for reports.
    pub fn describe(&self) -> String {
        let values = Counter::ALL.iter().map(|counter| (counter.name(), self.stack.counters().get(*counter)));
        let counters: Vec<String> = values.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        let free = |class| self.arena.free(class);
        format!(
            "{}: {}\n  counters: {}\n  frames free: {} large, {} small",
            self.name,
            self.application.describe(&self.stack),
            counters.join(", "),
            free(Class::Large),
            free(Class::Small)
        )
    }

    /// Returns the time of the next iteration, if any.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let beside = self.beside.as_ref().and_then(Beside::poll_timeout);
        let others = [self.stack.poll_timeout(), self.device.poll_timeout(), self.application.poll_timeout()];
        others.into_iter().chain([beside]).flatten().min()
    }
}
