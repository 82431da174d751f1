//! Who uses which port of this worker: counts users per (address, port) and asks [`Ports`] only when
//! the first comes and the last has gone.
//!
//! A user is a listener, a connection, or a connection that is over (which keeps its port for a
//! while: packets of the old connection must not reach the kernel's TCP). Does not do:
//! finding out whether a 4-tuple is free; that is the stack's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use ringway_shm::{Duration, Instant};

use crate::claim::Claim;
use crate::ports::{Division, PortError, Ports, Transport};

/// Late releases are gathered, so that a worker with nothing else to do wakes once for many.
const GATHER: Duration = Duration::from_secs(1);
/// How many ports to try when the kernel's choice is in use here.
const RESERVE_ATTEMPTS: usize = 8;

struct Users {
    count: u32,
    /// The port was chosen for a connection of this user.
    reserved: Option<u32>,
    /// Of the port's flows only a share comes to this worker.
    shared: bool,
    /// Connections that are over keep the port until then.
    hold_until: Instant,
    /// Whether the port has an entry in `late`.
    queued: bool,
    /// A listener has it, or had: its connections were accepted.
    served: bool,
    /// The host's packet filters forbid it: packets go to the kernel.
    guarded: bool,
    /// The right of the connection that was opened from it last.
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
            claim: None,
        }
    }
}

/// The table; see the module's text.
pub(crate) struct PortTable {
    ports: Box<dyn Ports>,
    users: HashMap<(Transport, IpAddr, u16), Users>,
    late: BTreeSet<(Instant, IpAddr, u16)>,
    /// Ports that were taken for connections, and the one that was lent to another connection last.
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
            reserved: BTreeSet::new(),
            lent: 0,
            of_users: BTreeMap::new(),
            per_user: u32::MAX,
        }
    }

    /// One user more of a port that is reserved by somebody else's kernel socket (a listener's twin,
    /// a socket that the application has bound), or is in the table already.
    pub(crate) fn add(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.add_of(Transport::Tcp, ip, port)
    }

    /// As [`add`](PortTable::add), for a listener that every worker of the service has.
    pub(crate) fn add_share(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        if !self.is_guarded(ip, port) {
            self.ports.own_share(Transport::Tcp, ip, port)?;
        }
        let users = self.users.entry((Transport::Tcp, ip, port)).or_insert(Users { count: 0, ..Users::first(None) });
        users.count += 1;
        users.shared = true;
        Ok(())
    }

    /// As [`add`](PortTable::add), for a connection that is opened: its answers must come to this worker, so the port may
    /// not be one whose flows are shared among workers. `claim`, the right to the port, is kept as long as the port is used.
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

    /// Whether connections to this address and port come to every worker of the service, each to its own.
    pub(crate) fn is_shared(&self, (ip, port): (IpAddr, u16)) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.shared)
    }

    /// The other workers, if there are any.
    pub(crate) fn division(&mut self) -> Option<&mut dyn Division> {
        self.ports.division()
    }

    /// As [`add`](PortTable::add), of UDP.
    pub(crate) fn add_datagrams(&mut self, ip: IpAddr, port: u16) -> Result<(), PortError> {
        self.add_of(Transport::Udp, ip, port)
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

    /// How many ports one user may have.
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
                // Free for the kernel, but connections of a socket that is gone still use it here.
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

    /// One user more of a port of `ip` that is reserved already, another one each time: what differs is the peer.
    pub(crate) fn lend(&mut self, ip: IpAddr) -> Option<u16> {
        let after = (ip, self.lent.saturating_add(1));
        let mut ports = self.reserved.range(after..=(ip, u16::MAX)).chain(self.reserved.range((ip, 0)..=(ip, self.lent)));
        let port = ports.next()?.1;
        self.lent = port;
        self.users.get_mut(&(Transport::Tcp, ip, port))?.count += 1;
        Some(port)
    }

    /// One user less.
    pub(crate) fn remove(&mut self, ip: IpAddr, port: u16) {
        self.remove_of(Transport::Tcp, ip, port);
    }

    /// As [`remove`](PortTable::remove), of UDP.
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

    /// One user less, `delay` from now: a connection of which packets may still be under way.
    pub(crate) fn remove_late(&mut self, now: Instant, delay: Duration, ip: IpAddr, port: u16) {
        let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) else {
            debug_assert!(false, "a user is removed once");
            return;
        };
        users.hold_until = users.hold_until.max(now + delay);
        if users.queued {
            users.count -= 1;
        } else {
            // The last user of the hold is taken off when it ends.
            users.queued = true;
            self.late.insert((now + delay, ip, port));
        }
    }

    /// Removes the users whose time has come.
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

    /// When `handle_timeout` is wanted next. Some time after the first is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.late.first().map(|&(at, ..)| at + GATHER)
    }

    /// A listener has the port.
    pub(crate) fn note_served(&mut self, ip: IpAddr, port: u16) {
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
            users.served = true;
        }
    }

    /// Whether the host's packet filters let a port be served.
    pub(crate) fn may_serve(&mut self, transport: Transport, ip: IpAddr, port: u16) -> bool {
        self.ports.may_serve(transport, ip, port)
    }

    /// Whether they let a connection be opened.
    pub(crate) fn may_connect(&mut self, local: SocketAddr, peer: SocketAddr) -> bool {
        self.ports.may_connect(local, peer)
    }

    /// Whether they let a connection that is open go on, after [`rules_changed`](PortTable::rules_changed).
    pub(crate) fn may_go_on(&mut self, local: SocketAddr, peer: SocketAddr) -> bool {
        match self.users.get(&(Transport::Tcp, local.ip(), local.port())) {
            Some(users) if users.guarded => false,
            Some(users) if users.served => true,
            _ => self.ports.may_connect(local, peer),
        }
    }

    /// The only connection of a port may not go on: its packets go to the kernel.
    pub(crate) fn guard(&mut self, ip: IpAddr, port: u16) {
        if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port))
            && users.count == 1
            && !std::mem::replace(&mut users.guarded, true)
        {
            self.ports.disown(Transport::Tcp, ip, port);
        }
    }

    /// The host's packet filters have changed: ports of listeners that they forbid are the kernel's, those that they let go
    /// are served again.
    pub(crate) fn rules_changed(&mut self) {
        let served = self.users.iter().filter(|(_, users)| users.served);
        let mut served: Vec<_> = served.map(|(&(_, ip, port), users)| (ip, port, users.guarded, users.shared)).collect();
        served.sort_unstable();
        for (ip, port, was_guarded, shared) in served {
            let guarded = match (self.ports.may_serve(Transport::Tcp, ip, port), was_guarded) {
                (false, false) => {
                    self.ports.disown(Transport::Tcp, ip, port);
                    true
                }
                (false, true) => true,
                (true, false) => false,
                // Refused: it stays the kernel's until the rules change again.
                (true, true) if shared => self.ports.own_share(Transport::Tcp, ip, port).is_err(),
                (true, true) => self.ports.own(Transport::Tcp, ip, port).is_err(),
            };
            if let Some(users) = self.users.get_mut(&(Transport::Tcp, ip, port)) {
                users.guarded = guarded;
            }
        }
    }

    fn is_guarded(&self, ip: IpAddr, port: u16) -> bool {
        self.users.get(&(Transport::Tcp, ip, port)).is_some_and(|users| users.guarded)
    }

    /// Whether anybody uses the port.
    #[cfg(test)]
    pub(crate) fn is_used(&self, ip: IpAddr, port: u16) -> bool {
        self.users.contains_key(&(Transport::Tcp, ip, port))
    }
}

#[cfg(test)]
mod tests;
