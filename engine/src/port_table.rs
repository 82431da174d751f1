//! Users of this worker's ports: counts users per (address, port) and asks [`Ports`] only for the first and after the
//! last.
//!
//! A user is a listener, a connection, or a closed connection, which keeps its port for a while: packets of the old
//! connection must not reach the kernel's TCP. Does not do: finding out whether a 4-tuple is free; the stack does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use ringway_shm::{Duration, Instant};

use crate::claim::Claim;
use crate::ports::{Division, Leave, PortError, Ports, Transport};
use crate::verdict::Verdict;

/// Late releases are gathered, so that a worker that is otherwise idle wakes once for many.
const GATHER: Duration = Duration::from_secs(1);
/// Number of ports to try if the kernel's choice is in use here.
const RESERVE_ATTEMPTS: usize = 8;
/// A worker waits so long for the others that have a port and are to let it go.
const PARTING_MAX: Duration = Duration::from_secs(1);
/// A SYN that a device has taken before its port was the kernel's comes out of the ring within this time.
const SYN_MAX: Duration = Duration::from_millis(100);

struct Users {
    count: u32,
    /// The port was chosen for a connection of this user.
    reserved: Option<u32>,
    /// Of the port's flows only a share comes to this worker.
    shared: bool,
    /// Time until which closed connections keep the port.
    hold_until: Instant,
    /// The port has an entry in `late`.
    queued: bool,
    /// A listener has or had it: its connections were accepted.
    served: bool,
    /// The host's packet filters forbid it: packets go to the kernel.
    guarded: bool,
    /// A rule of the configuration leaves it to the kernel: new connections go there.
    left: bool,
    /// Claim of the connection that was opened from it last.
    claim: Option<Claim>,
}

impl Users {
    fn first(reserved: Option<u32>) -> Users {
        Users {
            count: 1,
            reserved,
            shared: false,
            hold_until: Instant::ZERO,
            queued: false,
            served: false,
            guarded: false,
            left: false,
            claim: None,
        }
    }
}

/// The table; see the module documentation.
pub(crate) struct PortTable {
    ports: Box<dyn Ports>,
    users: HashMap<(Transport, IpAddr, u16), Users>,
    late: BTreeSet<(Instant, IpAddr, u16)>,
    /// Ports whose new connections are about to be the kernel's, or have been since this instant: their listeners take no SYN.
    parting: BTreeMap<(IpAddr, u16), Instant>,
    /// Ports taken for connections, and the one lent to another connection last.
    reserved: BTreeSet<(IpAddr, u16)>,
    lent: u16,
    /// Of `reserved`, how many were taken for each user, and may be.
    of_users: BTreeMap<u32, u32>,
    per_user: u32,
}

/// Why no port was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReserved {
    /// The user has as many as it may have.
    UserHasAll,
    /// As [`PortError`] says.
    Refused(PortError),
}

impl PortTable {
    pub(crate) fn new(ports: Box<dyn Ports>) -> PortTable {
        PortTable {
            ports,
            users: HashMap::new(),
            late: BTreeSet::new(),
            parting: BTreeMap::new(),
            reserved: BTreeSet::new(),
            lent: 0,
            of_users: BTreeMap::new(),
            per_user: u32::MAX,
        }
    }

    /// Adds a user of a port that is reserved by another kernel socket (a listener's shadow, a socket that the
    /// application has bound), or that is in the table already.
    pub(crate) fn add(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.add_of(Transport::Tcp, ip, port)
    }

    /// Adds a connection that a listener has accepted to the users of its port. Returns false if the port has none: the listener has lost it while
    /// the handshake was under way, and packets go to the kernel. The port is not taken again for that connection: others would follow it.
    pub(crate) fn join(&mut self, ip: IpAddr, port: u16) -> bool {
        let users = self.users.get_mut(&(Transport::Tcp, ip, port));
        users.map(|users| users.count += 1).is_some()
    }

    /// Like [`add`](PortTable::add), for a listener that every worker of the service has.
    pub(crate) fn add_share(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if !self.is_guarded(ip, port) {
            self.ports.own_share(Transport::Tcp, ip, port)?;
        }
        let users = self.users.entry((Transport::Tcp, ip, port)).or_insert(Users { count: 0, ..Users::first(None) });
        users.count += 1;
        users.shared = true;
        Ok(())
    }

    /// Like [`add`](PortTable::add), for a connection that is opened: its answers must come to this worker, so the
    /// flows of the port may not be shared among workers. `claim`, the right to the port, is kept as long as the port
    /// is used.
    pub(crate) fn add_alone(&mut self, ip: IpAddr, port: u16, claim: Option<Claim>) -> Result<(), PortError> {
        match self.users.get(&(Transport::Tcp, ip, port)) {
            Some(users) if users.shared => return Err(PortError::InUse),
            _ => self.add(ip, port)?,
        }
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
            users.claim = claim.or(users.claim.take());
        }
        Ok(())
    }

    /// Returns true if every worker of the service gets its own share of the connections to this address and port.
    pub(crate) fn is_shared(&self, (ip, port): (IpAddr, u16)) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.shared)
    }

    /// The other workers, if any.
    pub(crate) fn division(&mut self) -> Option<&mut dyn Division> {
        self.ports.division()
    }

    /// Like [`add`](PortTable::add), for UDP.
    pub(crate) fn add_datagrams(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.add_of(Transport::Udp, ip, port)
    }

    /// Adds a user of the datagrams to a multicast group's port, which the kernel's sockets get too.
    pub(crate) fn add_copies(&mut self, group: IpAddr, port: u16) -> Result<(), PortError> {
        if let Some(users) = self.users.get_mut(&(Transport::Udp, group, port)) {
            users.count += 1;
            return Ok(());
        }
        self.ports.own_copies(group, port)?;
        self.users.insert((Transport::Udp, group, port), Users::first(None));
        Ok(())
    }

    fn add_of(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if let Some(users) = self.users.get_mut(&(transport, ip, port)) {
            users.count += 1;
            return Ok(());
        }
        self.ports.own(transport, ip, port)?;
        self.users.insert((transport, ip, port), Users::first(None));
        Ok(())
    }

    /// So many ports may be reserved for one user's connections.
    pub(crate) fn limit_users(&mut self, most: u32) {
        self.per_user = most;
    }

    /// Ports that are reserved for a user's connections.
    pub(crate) fn reserved_of(&self, uid: u32) -> u32 {
        self.of_users.get(&uid).copied().unwrap_or(0)
    }

    /// Ports that are reserved, and may be.
    pub(crate) fn reserved(&self) -> (u64, Option<u64>) {
        (self.reserved.len() as u64, self.ports.reserved_max())
    }

    /// Returns the number of ports that one user may have.
    pub(crate) fn per_user(&self) -> u32 {
        self.per_user
    }

    /// Reserves an ephemeral port for a connection of user `uid`, and counts its first user.
    pub(crate) fn reserve(&mut self, ip: IpAddr, uid: u32) -> Result<u16, NotReserved> {
        if self.reserved_of(uid) >= self.per_user {
            return Err(NotReserved::UserHasAll);
        }
        self.reserve_any(ip, uid).map_err(NotReserved::Refused)
    }

    fn reserve_any(&mut self, ip: IpAddr, uid: u32) -> Result<u16, PortError> {
        for _ in 0..RESERVE_ATTEMPTS {
            let port = self.ports.reserve(ip, 0)?;
            if self.users.contains_key(&(Transport::Tcp, ip, port)) {
                // Free for the kernel, but connections of a closed socket still use it here.
                self.ports.release(ip, port);
                continue;
            }
            if let Err(error) = self.ports.own(Transport::Tcp, ip, port) {
                self.ports.release(ip, port);
                return Err(error);
            }
            self.users.insert((Transport::Tcp, ip, port), Users::first(Some(uid)));
            self.reserved.insert((ip, port));
            *self.of_users.entry(uid).or_default() += 1;
            return Ok(port);
        }
        Err(PortError::InUse)
    }

    /// Adds a user to a reserved port of `ip`, another port each time; the connections differ by peer.
    pub(crate) fn lend(&mut self, ip: IpAddr) -> Option<u16> {
        let after = (ip, self.lent.saturating_add(1));
        let mut ports = self.reserved.range(after..=(ip, u16::MAX)).chain(self.reserved.range((ip, 0)..=(ip, self.lent)));
        let port = ports.next()?.1;
        self.lent = port;
        self.users.get_mut(&(Transport::Tcp, ip, port))?.count += 1;
        Some(port)
    }

    /// Removes a user.
    pub(crate) fn remove(&mut self, ip: IpAddr, port: u16) {
        self.remove_of(Transport::Tcp, ip, port);
    }

    /// Like [`remove`](PortTable::remove), for UDP.
    pub(crate) fn remove_datagrams(&mut self, ip: IpAddr, port: u16) {
        self.remove_of(Transport::Udp, ip, port);
    }

    fn remove_of(&mut self, transport: Transport, ip: IpAddr, port: u16) {
        let Some(users) = self.users.get_mut(&(transport, ip, port)) else {
            debug_assert!(false, "a user is removed once");
            return;
        };
        users.count -= 1;
        if users.count > 0 || users.queued {
            return;
        }
        let (reserved, guarded) = (users.reserved, users.guarded);
        self.users.remove(&(transport, ip, port));
        if !guarded {
            self.ports.disown(transport, ip, port);
        }
        if let Some(uid) = reserved {
            self.reserved.remove(&(ip, port));
            if let Some(count) = self.of_users.get_mut(&uid) {
                *count -= 1;
                if *count == 0 {
                    self.of_users.remove(&uid);
                }
            }
            self.ports.release(ip, port);
        }
    }

    /// Removes a user `delay` from now, because packets of the connection may still be under way.
    pub(crate) fn remove_late(&mut self, now: Instant, delay: Duration, ip: IpAddr, port: u16) {
        let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) else {
            debug_assert!(false, "a user is removed once");
            return;
        };
        users.hold_until = users.hold_until.max(now + delay);
        if users.queued {
            users.count -= 1;
        } else {
            // The last user of the hold is removed when it ends.
            users.queued = true;
            self.late.insert((now + delay, ip, port));
        }
    }

    /// Removes the users after their delay.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, ip, port)) = self.late.first() {
            if at > now {
                return;
            }
            self.late.pop_first();
            let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) else { continue };
            if users.hold_until > now {
                self.late.insert((users.hold_until, ip, port));
            } else {
                users.queued = false;
                self.remove(ip, port);
            }
        }
    }

    /// Time of the next `handle_timeout`, some time after the first user is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.late.first().map(|&(at, ..)| at + GATHER)
    }

    /// Notes that a listener has the port.
    pub(crate) fn note_served(&mut self, ip: IpAddr, port: u16) {
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
            users.served = true;
        }
    }

    /// See [`Ports::judge_port`].
    pub(crate) fn judge_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> Verdict {
        self.ports.judge_port(transport, ip, port)
    }

    /// See [`Ports::judge_connection`].
    pub(crate) fn judge_connection(&mut self, local: SocketAddr, peer: SocketAddr) -> Verdict {
        self.ports.judge_connection(local, peer)
    }

    /// Returns true if the filters allow an open connection to go on, after
    /// [`rules_changed`](PortTable::rules_changed).
    pub(crate) fn may_go_on(&mut self, local: SocketAddr, peer: SocketAddr) -> bool {
        match self.users.get(&(Transport::Tcp, local.ip(), local.port())) {
            Some(users) if users.guarded => false,
            Some(users) if users.served => true,
            _ => self.ports.passes_connection(local, peer),
        }
    }

    /// Gives the packets of a port to the kernel: its only connection may not go on.
    pub(crate) fn guard(&mut self, ip: IpAddr, port: u16) {
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port))
            && users.count == 1
            && !std::mem::replace(&mut users.guarded, true)
        {
            self.ports.disown(Transport::Tcp, ip, port);
        }
    }

    /// Gives the packets of a listener's port to the kernel, also while connections, such as those in TIME-WAIT, keep the port.
    pub(crate) fn leave(&mut self, ip: IpAddr, port: u16) {
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
            (users.served, users.left) = (false, false);
            if !std::mem::replace(&mut users.guarded, true) {
                self.ports.disown(Transport::Tcp, ip, port);
            }
        }
    }

    /// Gives new connections of a listener's port to the kernel for good; those with the peers in `stay` are still the stack's. The caller takes no
    /// new one any more.
    pub(crate) fn leave_new(&mut self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) {
        if !self.is_guarded(ip, port) {
            // Where it cannot be, new connections wait until the last one of the port has left.
            self.ports.leave(ip, port, stay);
        }
    }

    /// Gives new connections of a listener's port to the kernel; those with the peers in `stay`, which the stack has, go on here. Until
    /// [`follow_partings`](PortTable::follow_partings) says so, the port is [parting](PortTable::is_parting).
    pub(crate) fn let_go(&mut self, (ip, port): (IpAddr, u16), stay: &[(IpAddr, u16)], now: Instant) {
        let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) else { return };
        match self.ports.leave(ip, port, stay) {
            Leave::Done => users.left = true,
            Leave::Waits => {}
            Leave::Refused => return,
        }
        self.parting.insert((ip, port), now);
    }

    /// Takes new connections of a port back. Where that cannot be it stays the kernel's, but for the connections with the peers in `stay`.
    pub(crate) fn take_back(&mut self, (ip, port): (IpAddr, u16), stay: &[(IpAddr, u16)]) {
        let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) else { return };
        let has_left = users.left || (self.parting.contains_key(&(ip, port)) && !self.ports.stay(ip, port));
        users.left = has_left && !self.ports.take_back(ip, port, stay);
        self.parting.remove(&(ip, port));
    }

    /// Returns true if listeners of a port take no SYN for now.
    pub(crate) fn is_parting(&self, ip: IpAddr, port: u16) -> bool {
        self.parting.contains_key(&(ip, port))
    }

    /// Returns true if no new connection of a port comes here: it is the kernel's, or parting.
    pub(crate) fn takes_nothing(&self, ip: IpAddr, port: u16) -> bool {
        self.is_kernels(ip, port) || self.is_parting(ip, port)
    }

    /// Returns true if some port is parting.
    pub(crate) fn has_partings(&self) -> bool {
        !self.parting.is_empty()
    }

    /// Asks what became of ports that are parting. Returns true if one is not any more: it is the kernel's, or goes on here, since another worker
    /// has not let it go.
    pub(crate) fn follow_partings(&mut self, now: Instant) -> bool {
        let before = self.parting.len();
        let (ports, users) = (&mut self.ports, &mut self.users);
        self.parting.retain(|&(ip, port), since| {
            let Some(users) = users.get_mut(&(Transport::Tcp, ip, port)) else { return false };
            if !users.left && ports.has_left(ip, port) {
                (users.left, *since) = (true, now);
            }
            let is_over = now >= *since + if users.left { SYN_MAX } else { PARTING_MAX };
            users.left |= is_over && !users.left && !ports.stay(ip, port);
            !is_over
        });
        self.parting.len() != before
    }

    /// Follows a change of the host's packet filters: listeners' ports that they forbid are the kernel's, those that
    /// they allow again are served again.
    pub(crate) fn rules_changed(&mut self) {
        let served = self.users.iter().filter(|(_, users)| users.served);
        let mut served: Vec<_> = served.map(|(&(_, ip, port), users)| (ip, port, users.guarded, users.shared)).collect();
        served.sort_unstable();
        for (ip, port, was_guarded, shared) in served {
            let guarded = match (self.ports.passes_port(Transport::Tcp, ip, port), was_guarded) {
                (false, false) => {
                    self.ports.disown(Transport::Tcp, ip, port);
                    true
                }
                (false, true) => true,
                (true, false) => false,
                // A rule of the configuration has left it to the kernel meanwhile.
                (true, true) if !self.ports.judge_port(Transport::Tcp, ip, port).serves() => true,
                // Refused: it stays the kernel's until the rules change again.
                (true, true) if shared => self.ports.own_share(Transport::Tcp, ip, port).is_err(),
                (true, true) => self.ports.own(Transport::Tcp, ip, port).is_err(),
            };
            if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
                users.guarded = guarded;
                users.left &= !guarded;
            }
        }
    }

    /// Returns true if new connections of a port go where a rule of the configuration wants: to the kernel, if it `leaves` them.
    pub(crate) fn follows_rule(&self, (ip, port): (IpAddr, u16), leaves: bool) -> bool {
        let users = self.users.get(&(Transport::Tcp, ip, port));
        let is_parting = self.parting.contains_key(&(ip, port));
        users.is_none_or(|users| users.guarded || (users.left || is_parting) == leaves)
    }

    /// See [`Ports::has_rules`].
    pub(crate) fn has_rules(&self) -> bool {
        self.ports.has_rules()
    }

    /// See [`Ports::passes_port`].
    pub(crate) fn passes_port(&mut self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.ports.passes_port(transport, ip, port)
    }

    /// Returns true if a listener has or had the port.
    pub(crate) fn is_served(&self, ip: IpAddr, port: u16) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.served)
    }

    /// Returns true if new connections of a port go to the kernel although it has users here.
    pub(crate) fn is_kernels(&self, ip: IpAddr, port: u16) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.guarded || users.left)
    }

    /// Returns true if packets of a port go to the kernel although it has users here.
    pub(crate) fn is_guarded(&self, ip: IpAddr, port: u16) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.guarded)
    }

    /// Returns true if the port has a user.
    #[cfg(test)]
    pub(crate) fn is_used(&self, ip: IpAddr, port: u16) -> bool {
        self.users.contains_key(&(Transport::Tcp, ip, port))
    }
}

#[cfg(test)]
mod tests;
