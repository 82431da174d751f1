//! The ioctls that ask about an interface and set it up.

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::Queues;
use crate::sys::check;

const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The set of strings that names features.
const FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// More than any kernel has.
const FEATURES_MAX: usize = 256;
const BLOCKS_MAX: usize = FEATURES_MAX / 32;

/// `struct ethtool_channels`
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// `struct ethtool_gstrings`
#[repr(C)]
struct Names {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME_BYTES]; FEATURES_MAX],
}

/// `struct ethtool_sset_info`, of one set
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

/// `struct ethtool_gfeatures`
#[repr(C)]
struct FeatureStates {
    command: u32,
    count: u32,
    /// Available, requested, active, never changed: one bit for each feature.
    blocks: [[u32; 4]; BLOCKS_MAX],
}

/// `struct ethtool_sfeatures`
#[repr(C)]
struct FeatureOrders {
    command: u32,
    count: u32,
    /// Which are meant, and which of these are wanted.
    blocks: [[u32; 2]; BLOCKS_MAX],
}

/// Lets a netlink socket hear of a group, by its number.
pub(super) fn join(socket: impl AsFd, group: u32) -> io::Result<()> {
    let (fd, value) = (socket.as_fd().as_raw_fd(), (&raw const group).cast());
    // SAFETY: the kernel reads the number, which lives until it has.
    check(unsafe { libc::setsockopt(fd, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, value, size_of::<u32>() as u32) })?;
    Ok(())
}

/// A socket to ask with.
pub(super) struct Control(OwnedFd);

/// Of a block of features, those that are requested and active.
fn wanted_and_on([_, requested, active, _]: &[u32; 4]) -> u32 {
    requested & active
}

/// A request about `name`.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an ifreq is plain bytes, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("interface name {name:?} must have 1 to 15 bytes")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

impl Control {
    pub(super) fn open() -> io::Result<Control> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor was made above and has no other owner.
        Ok(Control(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn ask(&self, command: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every command used here reads and writes one ifreq.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), command as libc::Ioctl, std::ptr::from_mut(request)) })?;
        Ok(())
    }

    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        let mut request = request(name)?;
        self.ask(libc::SIOCGIFINDEX, &mut request)?;
        // SAFETY: the kernel filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }

    pub(super) fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = request(name)?;
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the kernel filled this member.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    pub(super) fn set_mtu(&self, name: &str, mtu: u16) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_mtu = i32::from(mtu);
        self.ask(libc::SIOCSIFMTU, &mut request)
    }

    pub(super) fn mac(&self, name: &str) -> io::Result<[u8; 6]> {
        let mut request = request(name)?;
        self.ask(libc::SIOCGIFHWADDR, &mut request)?;
        // SAFETY: the kernel filled this member.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        Ok(std::array::from_fn(|i| data[i] as u8))
    }

    pub(super) fn flags(&self, name: &str) -> io::Result<i32> {
        let mut request = request(name)?;
        self.ask(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the kernel filled this member.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
    }

    pub(super) fn set_flags(&self, name: &str, flags: i32) -> io::Result<()> {
        let mut request = request(name)?;
        request.ifr_ifru.ifru_flags = flags as i16;
        self.ask(libc::SIOCSIFFLAGS, &mut request)
    }

    pub(super) fn set_address(&self, name: &str, address: Ipv4Addr) -> io::Result<()> {
        self.put_address(libc::SIOCSIFADDR, name, address)
    }

    pub(super) fn set_netmask(&self, name: &str, mask: Ipv4Addr) -> io::Result<()> {
        self.put_address(libc::SIOCSIFNETMASK, name, mask)
    }

    fn put_address(&self, command: libc::c_ulong, name: &str, address: Ipv4Addr) -> io::Result<()> {
        let mut request = request(name)?;
        // SAFETY: a sockaddr is plain bytes, for which zeros are valid.
        let mut socket_address: libc::sockaddr = unsafe { zeroed() };
        socket_address.sa_family = libc::AF_INET as libc::sa_family_t;
        for (to, from) in socket_address.sa_data[2..6].iter_mut().zip(address.octets()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_addr = socket_address;
        self.ask(command, &mut request)
    }

    /// The driver's name.
    pub(super) fn driver(&self, name: &str) -> io::Result<String> {
        // SAFETY: plain bytes and numbers, for which zeros are valid.
        let mut info: DriverInfo = unsafe { zeroed() };
        info.command = ETHTOOL_GDRVINFO;
        let mut request = request(name)?;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut info).cast();
        self.ask(libc::SIOCETHTOOL, &mut request)?;
        let end = info.driver.iter().position(|&byte| byte == 0).unwrap_or(info.driver.len());
        Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
    }

    /// Returns the number of queues that deliver packets.
    pub(super) fn receive_queues(&self, name: &str) -> io::Result<u32> {
        let [receive, _, combined] = self.queues(name)?.now;
        Ok(receive + combined)
    }

    /// The numbers of queues, now and at most.
    pub(super) fn queues(&self, name: &str) -> io::Result<Queues> {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        let mut request = request(name)?;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut channels).cast();
        self.ask(libc::SIOCETHTOOL, &mut request)?;
        let [receive, transmit, _, combined] = channels.max;
        Ok(Queues { now: [channels.receive, channels.transmit, channels.combined], most: [receive, transmit, combined] })
    }

    /// The features that the driver has: those that are on, or that could be.
    pub(super) fn features(&self, name: &str) -> io::Result<Vec<(String, bool)>> {
        let states = self.feature_states(name)?;
        let names = self.feature_names(name, &states)?.into_iter().enumerate();
        let state = |(at, name): (usize, String)| {
            let [available, _, active, _] = states.blocks[at / 32].map(|word| word >> (at % 32) & 1 != 0);
            (available || active).then_some((name, active))
        };
        Ok(names.filter_map(state).collect())
    }

    /// The features that are wanted and on, 32 in a word. (A driver may switch off what stays wanted, as vmxnet3 does with LRO.)
    pub(super) fn features_on(&self, name: &str) -> io::Result<Vec<u32>> {
        let states = self.feature_states(name)?;
        Ok(states.blocks[..(states.count as usize).min(BLOCKS_MAX)].iter().map(wanted_and_on).collect())
    }

    fn feature_states(&self, name: &str) -> io::Result<FeatureStates> {
        let mut states = FeatureStates { command: ETHTOOL_GFEATURES, count: BLOCKS_MAX as u32, blocks: [[0; 4]; BLOCKS_MAX] };
        let mut asked = request(name)?;
        asked.ifr_ifru.ifru_data = std::ptr::from_mut(&mut states).cast();
        self.ask(libc::SIOCETHTOOL, &mut asked)?;
        Ok(states)
    }

    /// Wants these features too, as many words as the kernel has.
    pub(super) fn want_features(&self, name: &str, more: &[u32]) -> io::Result<()> {
        let mut orders = FeatureOrders { command: ETHTOOL_SFEATURES, count: 0, blocks: [[0; 2]; BLOCKS_MAX] };
        for (block, word) in orders.blocks.iter_mut().zip(more) {
            *block = [*word, *word];
            orders.count += 1;
        }
        let mut asked = request(name)?;
        asked.ifr_ifru.ifru_data = std::ptr::from_mut(&mut orders).cast();
        self.ask(libc::SIOCETHTOOL, &mut asked)
    }

    /// Returns true if all of these features (`ethtool -k` lists their names) are on.
    pub(super) fn has_features(&self, name: &str, features: &[&str]) -> io::Result<bool> {
        let states = self.feature_states(name)?;
        let names = self.feature_names(name, &states)?;
        let is_on = |feature: &&str| {
            let place = names.iter().position(|name| name == feature);
            place.is_some_and(|at| states.blocks[at / 32][2] >> (at % 32) & 1 != 0)
        };
        Ok(features.iter().all(is_on))
    }

    /// The names of those of these features, 32 in a word, that are not wanted or not on.
    pub(super) fn features_off(&self, name: &str, features: &[u32]) -> io::Result<Vec<String>> {
        let states = self.feature_states(name)?;
        let names = self.feature_names(name, &states)?.into_iter().enumerate();
        let is_missing = |at: usize| {
            features.get(at / 32).is_some_and(|word| word & !wanted_and_on(&states.blocks[at / 32]) & 1 << (at % 32) != 0)
        };
        Ok(names.filter(|(at, _)| is_missing(*at)).map(|(_, name)| name).collect())
    }

    /// The names of all features, by their numbers; none where there is no room. The kernel writes as many entries as it has
    /// features, so it is asked first that there are no more than there is room for.
    fn feature_names(&self, name: &str, states: &FeatureStates) -> io::Result<Vec<String>> {
        let mut asked = request(name)?;
        // The kernel has told how many blocks it knows; its names are as many or fewer.
        if states.count as usize > BLOCKS_MAX {
            return Ok(Vec::new());
        }
        let mut info = SetInfo { command: ETHTOOL_GSSET_INFO, reserved: 0, mask: 1 << FEATURES, count: 0 };
        asked.ifr_ifru.ifru_data = std::ptr::from_mut(&mut info).cast();
        self.ask(libc::SIOCETHTOOL, &mut asked)?;
        if info.mask == 0 || info.count as usize > FEATURES_MAX {
            return Ok(Vec::new());
        }
        // Newer kernels give the names only to callers that know their number.
        let empty = [[0; NAME_BYTES]; FEATURES_MAX];
        let mut names = Box::new(Names { command: ETHTOOL_GSTRINGS, set: FEATURES, count: info.count, names: empty });
        asked.ifr_ifru.ifru_data = std::ptr::from_mut(names.as_mut()).cast();
        self.ask(libc::SIOCETHTOOL, &mut asked)?;
        let count = (names.count as usize).min(FEATURES_MAX);
        let text = |bytes: &[u8; NAME_BYTES]| {
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        Ok(names.names[..count].iter().map(text).collect())
    }
}
