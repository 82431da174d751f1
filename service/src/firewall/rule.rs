//! One rule of nf_tables: for which packets it can be, and whether it does anything but accept.
//!
//! A rule is a list of expressions: some load a part of the packet into a register, some compare it, some act. Understood are
//! comparisons of the interface and of the protocol; every other comparison may hold. Promises: an expression that is not
//! known to be without effect is an objection.

use super::Link;
use super::wire::number;
use crate::netlink::wire::{Attributes, text};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;

const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NF_DROP: i32 = 0;
const NF_ACCEPT: i32 = 1;
const NF_QUEUE: i32 = 3;
/// The lower half of a code that says "queue" has a number of its own above it.
const NF_VERDICT_MASK: i32 = 0xff;
const NFT_CONTINUE: i32 = -1;
const NFT_BREAK: i32 = -2;
const NFT_JUMP: i32 = -3;
const NFT_GOTO: i32 = -4;
const NFT_RETURN: i32 = -5;

const NFTA_TARGET_NAME: u16 = 1;

/// The register that is written.
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFT_META_IIF: u32 = 4;
const NFT_META_OIF: u32 = 5;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_L4PROTO: u32 = 16;

/// The register that is read.
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;

/// Bytes of an interface's name in a register.
const NAME_BYTES: usize = 16;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The attribute that says that the expression writes to the packet or its connection instead of reading.
const WRITES: [(&str, u16); 5] = [("meta", 3), ("payload", 5), ("ct", 4), ("exthdr", 7), ("lookup", 3)];
/// They read, compare or count.
const READS: [&str; 18] = [
    "payload",
    "meta",
    "cmp",
    "bitwise",
    "byteorder",
    "lookup",
    "range",
    "ct",
    "counter",
    "exthdr",
    "rt",
    "fib",
    "socket",
    "hash",
    "limit",
    "connlimit",
    "match",
    "last",
];
/// What an action is called, where its own name does not say it.
const ACTIONS: [(&str, &str); 4] = [("reject", "rejects"), ("log", "logs"), ("masq", "masquerade"), ("redir", "redirect")];

/// What is known of the interfaces of a packet, at a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It has come by the interface, and has none that it leaves by: to a rule that is number 0 without a name.
    In,
    /// The other way round.
    Out,
    /// Nothing: they are ports of a bridge.
    Bridged,
}

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    conditions: Vec<Condition>,
    /// What it does besides accepting.
    pub(super) objection: Option<String>,
    /// The chain that it calls.
    pub(super) calls: Option<String>,
}

/// A comparison that can be decided for a served interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: u32,
    is_equal: bool,
    value: Vec<u8>,
}

impl Rule {
    /// Whether packets of TCP or UDP on `link` could be meant.
    pub(super) fn may_match(&self, link: Link<'_>, way: Way) -> bool {
        self.conditions.iter().all(|condition| condition.may_hold(link, way))
    }

    fn object(&mut self, objection: &str) {
        self.objection.get_or_insert_with(|| objection.to_owned());
    }
}

impl Condition {
    fn may_hold(&self, link: Link<'_>, way: Way) -> bool {
        let has_it = match self.key {
            NFT_META_IIF | NFT_META_IIFNAME => way == Way::In,
            _ => way == Way::Out,
        };
        let link = if has_it { link } else { Link { index: 0, name: "" } };
        match self.key {
            NFT_META_IIF | NFT_META_OIF | NFT_META_IIFNAME | NFT_META_OIFNAME if way == Way::Bridged => true,
            NFT_META_IIF | NFT_META_OIF => (self.value == link.index.to_ne_bytes()) == self.is_equal,
            NFT_META_IIFNAME | NFT_META_OIFNAME => self.names(link.name) == self.is_equal,
            NFT_META_L4PROTO => !self.is_equal || self.value == [TCP] || self.value == [UDP],
            _ => true,
        }
    }

    /// A name that is compared whole ends with a zero; the beginning of a name (`eth*`) does not.
    fn names(&self, name: &str) -> bool {
        match self.value.contains(&0) || self.value.len() >= NAME_BYTES {
            true => text(&self.value) == name,
            false => name.as_bytes().starts_with(&self.value),
        }
    }
}

/// Reads the expressions of a rule.
pub(super) fn read(expressions: &[u8]) -> Rule {
    let mut rule = Rule::default();
    // What the expression before has loaded, if a comparison with it can be decided.
    let mut loaded = None;
    for (_, expression) in Attributes(expressions) {
        let (mut name, mut data) = (String::new(), &[][..]);
        for (kind, payload) in Attributes(expression) {
            match kind {
                NFTA_EXPR_NAME => name = text(payload),
                NFTA_EXPR_DATA => data = payload,
                _ => {}
            }
        }
        let before = loaded.take();
        match name.as_str() {
            "immediate" => verdict(data, &mut rule),
            "meta" if !writes("meta", data) => loaded = load(data),
            "cmp" => rule.conditions.extend(before.and_then(|loaded| condition(loaded, data))),
            other if writes(other, data) => rule.object(&format!("{other} that writes or decides by a map")),
            other if READS.contains(&other) => {}
            // An action of iptables, in iptables' own form.
            "target" => rule.object(&attribute(data, NFTA_TARGET_NAME).map_or("a target".to_owned(), text)),
            other => {
                let known = ACTIONS.iter().find(|(action, _)| *action == other);
                rule.object(known.map_or(if other.is_empty() { "an expression without a name" } else { other }, |known| known.1));
            }
        }
    }
    rule
}

fn writes(name: &str, data: &[u8]) -> bool {
    WRITES.iter().any(|(writer, kind)| *writer == name && attribute(data, *kind).is_some())
}

/// What is loaded, and into which register.
fn load(data: &[u8]) -> Option<(u32, u32)> {
    Some((number(attribute(data, NFTA_META_KEY)?)?, number(attribute(data, NFTA_META_DREG)?)?))
}

/// A comparison with what the expression before has loaded; `None`: it looks at another register.
fn condition((key, register): (u32, u32), data: &[u8]) -> Option<Condition> {
    if number(attribute(data, NFTA_CMP_SREG)?)? != register {
        return None;
    }
    let is_equal = match number(attribute(data, NFTA_CMP_OP)?)? {
        NFT_CMP_EQ => true,
        NFT_CMP_NEQ => false,
        _ => return None,
    };
    let value = attribute(attribute(data, NFTA_CMP_DATA)?, NFTA_DATA_VALUE)?.to_vec();
    Some(Condition { key, is_equal, value })
}

/// What a rule decides.
fn verdict(data: &[u8], rule: &mut Rule) {
    let Some(verdict) = attribute(data, NFTA_IMMEDIATE_DATA).and_then(|data| attribute(data, NFTA_DATA_VERDICT)) else {
        // A value for an action; which objects itself.
        return;
    };
    let code = attribute(verdict, NFTA_VERDICT_CODE).and_then(number).map(u32::cast_signed);
    let chain = attribute(verdict, NFTA_VERDICT_CHAIN).map(text);
    match (code, chain) {
        (Some(NF_ACCEPT | NFT_CONTINUE | NFT_BREAK | NFT_RETURN), _) => {}
        (Some(NFT_JUMP | NFT_GOTO), Some(chain)) => rule.calls = Some(chain),
        (Some(NF_DROP), _) => rule.object("drops"),
        (Some(code), _) if code & NF_VERDICT_MASK == NF_QUEUE => rule.object("queues"),
        _ => rule.object("an unknown verdict"),
    }
}

fn attribute(data: &[u8], wanted: u16) -> Option<&[u8]> {
    Attributes(data).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload)
}
