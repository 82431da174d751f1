//! The mirror: the kernel's tables, kept equal, and what each update changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use ringway_stack::{Cidr, MacAddress};

use super::socket::{Notifications, RouteSocket};
use super::wire::{Message, Received, Table};
use super::{Address, Link, LinkRoute, Neighbor, Policy};

/// Datagrams handled per update, so that an update ends.
const DATAGRAMS_MAX: usize = 1_024;

/// The kernel's tables at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By number.
    pub links: BTreeMap<u32, Link>,
    /// In the kernel's order: the first of a network is its primary address.
    pub addresses: Vec<Address>,
    /// Routes of the main table.
    pub routes: Vec<LinkRoute>,
    /// Resolved neighbors.
    pub neighbors: BTreeMap<(u32, IpAddr), MacAddress>,
    /// Rules of policy routing beside those that every machine has.
    pub policies: Vec<Policy>,
}

/// The changes of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Links that came, went or changed, or whose addresses did.
    pub links: BTreeSet<u32>,
    /// Some route came, went or changed.
    pub routes: bool,
    /// Neighbors, the last word on each.
    pub neighbors: BTreeMap<(u32, IpAddr), Option<MacAddress>>,
    /// Rules of policy routing came or went.
    pub policies: bool,
}

/// A [`Snapshot`] that follows the kernel.
pub struct Mirror {
    socket: RouteSocket,
    now: Snapshot,
}

impl Snapshot {
    /// Reads the kernel's tables once.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read() -> io::Result<Snapshot> {
        read_all(&mut RouteSocket::quiet()?)
    }

    /// The addresses of a link that may be used, deprecated ones last.
    pub fn addresses_of(&self, link: u32) -> Vec<Cidr> {
        let usable = |deprecated: bool| {
            let wanted = move |address: &&Address| !address.tentative && address.deprecated == deprecated;
            self.addresses.iter().filter(move |address| address.link == link).filter(wanted).map(|address| address.cidr)
        };
        [false, true].into_iter().flat_map(usable).collect()
    }

    /// The addresses of a link that new connections should not come from.
    pub fn deprecated_of(&self, link: u32) -> Vec<IpAddr> {
        let deprecated = self.addresses.iter().filter(|address| address.link == link && address.deprecated);
        deprecated.map(|address| address.cidr.ip).collect()
    }

    /// The link of this name.
    pub fn link_named(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    fn apply(&mut self, message: Message, differences: &mut Differences) {
        match message {
            Message::Link(link) => {
                let index = link.index;
                if self.links.insert(index, link.clone()) != Some(link) {
                    differences.links.insert(index);
                }
            }
            Message::LinkGone(index) => self.forget_link(index, differences),
            Message::Address(address) => {
                match self.addresses.iter_mut().find(|known| same_address(known, &address)) {
                    Some(known) if *known == address => return,
                    Some(known) => *known = address,
                    None => self.addresses.push(address),
                }
                differences.links.insert(address.link);
            }
            Message::AddressGone(address) => {
                self.addresses.retain(|known| !same_address(known, &address));
                differences.links.insert(address.link);
            }
            Message::Route(route) => {
                if !self.routes.contains(&route) {
                    self.routes.push(route);
                    differences.routes = true;
                }
            }
            Message::RouteGone(route) => {
                self.routes.retain(|known| *known != route);
                differences.routes = true;
            }
            Message::Policy(policy) => {
                self.policies.push(policy);
                differences.policies = true;
            }
            // Several may look alike: what is left is read.
            Message::PolicyGone(_) => differences.policies = true,
            Message::Neighbor(neighbor) => self.set_neighbor(neighbor, differences),
            Message::Done | Message::Error(_) => {}
        }
    }

    fn forget_link(&mut self, index: u32, differences: &mut Differences) {
        self.links.remove(&index);
        self.addresses.retain(|address| address.link != index);
        self.routes.retain(|route| route.link != index);
        let gone = self.neighbors.keys().filter(|(link, _)| *link == index);
        differences.neighbors.extend(gone.map(|key| (*key, None)));
        self.neighbors.retain(|(link, _), _| *link != index);
        differences.links.insert(index);
        differences.routes = true;
    }

    fn set_neighbor(&mut self, neighbor: Neighbor, differences: &mut Differences) {
        let key = (neighbor.link, neighbor.ip);
        let before = match neighbor.mac {
            Some(mac) => self.neighbors.insert(key, mac),
            None => self.neighbors.remove(&key),
        };
        if before != neighbor.mac {
            differences.neighbors.insert(key, neighbor.mac);
        }
    }
}

/// Returns the changes that lead from `before` to `after`.
fn differences(before: &Snapshot, after: &Snapshot) -> Differences {
    let mut found = Differences {
        routes: before.routes != after.routes,
        policies: before.policies != after.policies,
        ..Differences::default()
    };
    for index in before.links.keys().chain(after.links.keys()) {
        let of = |snapshot: &Snapshot| (snapshot.addresses_of(*index), snapshot.deprecated_of(*index));
        let same = before.links.get(index) == after.links.get(index) && of(before) == of(after);
        if !same {
            found.links.insert(*index);
        }
    }
    for key in before.neighbors.keys().chain(after.neighbors.keys()) {
        let mac = after.neighbors.get(key).copied();
        if before.neighbors.get(key).copied() != mac {
            found.neighbors.insert(*key, mac);
        }
    }
    found
}

/// Whatever their flags say.
fn same_address(left: &Address, right: &Address) -> bool {
    (left.link, left.cidr) == (right.link, right.cidr)
}

/// `ip route replace` puts one in the place of the other.
fn same_place(left: &LinkRoute, right: &LinkRoute) -> bool {
    left.destination == right.destination && left.metric == right.metric
}

fn read_all(socket: &mut RouteSocket) -> io::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    let mut ignored = Differences::default();
    for table in [Table::Links, Table::Addresses, Table::Routes, Table::Neighbors, Table::Policies] {
        for message in socket.dump(table)? {
            snapshot.apply(message, &mut ignored);
        }
    }
    Ok(snapshot)
}

impl Mirror {
    /// Reads everything and starts to follow.
    ///
    /// # Errors
    /// The kernel refuses the socket or its tables.
    pub fn open() -> io::Result<Mirror> {
        // Listening starts before reading, so that no change falls between.
        let socket = RouteSocket::listening()?;
        let now = read_all(&mut RouteSocket::quiet()?)?;
        Ok(Mirror { socket, now })
    }

    /// The tables as far as they have been followed.
    pub fn now(&self) -> &Snapshot {
        &self.now
    }

    /// Readable when there is something to follow.
    pub fn wait_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Takes in what the kernel has told since, without waiting.
    ///
    /// # Errors
    /// The kernel refuses its tables when they must be read again.
    pub fn update(&mut self) -> io::Result<Differences> {
        let (mut found, mut reread) = (Differences::default(), false);
        for _ in 0..DATAGRAMS_MAX {
            match self.socket.receive()? {
                Notifications::Messages(received) => {
                    for Received { message, replaces, .. } in received {
                        if let (true, Message::Route(route)) = (replaces, &message) {
                            self.now.routes.retain(|known| !same_place(known, route));
                        }
                        // One of several equal ways may be left (IPv6 tells of each alone).
                        reread |= matches!(&message, Message::RouteGone(route) if route.destination.ip.is_ipv6());
                        self.now.apply(message, &mut found);
                    }
                }
                Notifications::Empty => break,
                Notifications::Lost => self.resynchronize(&mut found)?,
            }
        }
        if reread || !found.links.is_empty() {
            self.reread_routes(&mut found)?;
        }
        if found.policies {
            self.reread_policies()?;
        }
        Ok(found)
    }

    /// The kernel removes the routes of an address or a link that goes without a word.
    fn reread_routes(&mut self, found: &mut Differences) -> io::Result<()> {
        let before = std::mem::take(&mut self.now.routes);
        for message in RouteSocket::quiet()?.dump(Table::Routes)? {
            self.now.apply(message, &mut Differences::default());
        }
        found.routes |= self.now.routes != before;
        Ok(())
    }

    fn reread_policies(&mut self) -> io::Result<()> {
        self.now.policies.clear();
        for message in RouteSocket::quiet()?.dump(Table::Policies)? {
            self.now.apply(message, &mut Differences::default());
        }
        Ok(())
    }

    /// Reads everything again and adds what is different from before.
    fn resynchronize(&mut self, found: &mut Differences) -> io::Result<()> {
        let fresh = read_all(&mut RouteSocket::quiet()?)?;
        let missed = differences(&self.now, &fresh);
        self.now = fresh;
        found.links.extend(missed.links);
        found.routes |= missed.routes;
        found.policies |= missed.policies;
        found.neighbors.extend(missed.neighbors);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn forget_for_test(&mut self) -> Differences {
        self.now = Snapshot::default();
        let mut found = Differences::default();
        self.resynchronize(&mut found).expect("the kernel answers");
        found
    }
}
