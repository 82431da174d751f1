//! The expressions of a rule of nf_tables: some load a part of the packet into registers, some compare them, some act.
//! Read linux/netfilter/nf_tables.h first.
//!
//! Promises: an expression that is not known to be without effect is [`Expression::Acts`].

use ringway_device::netlink::{Attributes, attribute, text};

use super::packet::BYTES;
use super::wire::number;
use super::xtables;

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
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
const NFT_JUMP: i32 = -3;
const NFT_GOTO: i32 = -4;
const NFT_RETURN: i32 = -5;

/// NFT_REG_1 to NFT_REG_4 have 16 bytes each; NFT_REG32_00 to NFT_REG32_15 are the same memory, 4 bytes each.
const REGISTER_BYTES: usize = 16;
const NFT_REG_4: u32 = 4;
const NFT_REG32_00: u32 = 8;
const NFT_REG32_15: u32 = 23;

/// NFT_OBJECT_COUNTER: a counter with a name.
const COUNTER: u32 = 1;
/// NFT_FIB_RESULT_ADDRTYPE; NFTA_FIB_F_SADDR and NFTA_FIB_F_DADDR without another flag.
const FIB_ADDRTYPE: u32 = 3;
const FIB_SADDR: u32 = 1;
const FIB_DADDR: u32 = 2;
/// NFT_PAYLOAD_TRANSPORT_HEADER
pub(super) const TRANSPORT_HEADER: u32 = 2;
/// NFT_BITWISE_MASK_XOR
const MASK_XOR: u32 = 0;

/// They load something that is not known here, or hold from time to time.
const UNKNOWNS: [(&str, &str); 11] = [
    ("exthdr", "an option of the packet"),
    ("rt", "the route"),
    ("socket", "the kernel's sockets"),
    ("hash", "a hash"),
    ("numgen", "a number"),
    ("osf", "the peer's system"),
    ("xfrm", "IPsec"),
    ("tunnel", "the tunnel"),
    ("inner", "what is in the tunnel"),
    ("limit", "a rate"),
    ("connlimit", "the number of connections"),
];
/// Names of actions, where an action's own name does not say it.
const ACTIONS: [(&str, &str); 3] = [("log", "logs"), ("masq", "masquerade"), ("redir", "redirect")];

/// The fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    /// And how.
    Refuse(&'static str),
    /// The next expression.
    Continue,
    Return,
    Call(Call),
    Acts(&'static str),
}

/// Another chain of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// Its place in the ruleset; `None`: it was not listed.
    pub(super) chain: Option<usize>,
    /// True if the rules after the call do not count.
    pub(super) is_goto: bool,
}

/// Where a loaded value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// NFT_META_*
    Meta(u32),
    /// NFT_CT_*
    Connection(u32),
    /// The type of the route to an address, RTN_*.
    AddressType {
        of_source: bool,
    },
    Payload {
        base: u32,
        offset: usize,
        len: usize,
    },
}

/// One expression; registers are named by their first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Load {
        to: usize,
        source: Source,
    },
    Value {
        to: usize,
        value: Vec<u8>,
    },
    Decide(Verdict),
    Compare {
        at: usize,
        operator: u32,
        value: Vec<u8>,
    },
    /// The value is in one of these ranges (or, `outside`, in none).
    Ranges {
        at: usize,
        outside: bool,
        ranges: Vec<(Vec<u8>, Vec<u8>)>,
    },
    Mask {
        from: usize,
        to: usize,
        mask: Vec<u8>,
        xor: Vec<u8>,
    },
    Swap {
        from: usize,
        to: usize,
        len: usize,
        size: usize,
    },
    Lookup {
        name: String,
        /// Its place in the ruleset; `None`: it was not listed.
        set: Option<usize>,
        at: usize,
        /// Of a map of values.
        to: Option<usize>,
        inverted: bool,
    },
    /// Loads what is not known, or holds or not, and why.
    Unknown(&'static str),
    /// Has no effect on the packet.
    Idle,
    /// Does something that the stack does not do.
    Acts(String),
}

/// Reads the expressions of a rule.
pub(super) fn read(expressions: &[u8]) -> Vec<Expression> {
    Attributes(expressions).flat_map(|(_, expression)| read_one(expression)).collect()
}

/// Returns true if an expression does nothing but count.
pub(super) fn only_counts(expression: &[u8]) -> bool {
    read_one(expression) == [Expression::Idle]
}

/// Returns true if all expressions of a list do nothing but count.
pub(super) fn all_only_count(expressions: &[u8]) -> bool {
    read(expressions).iter().all(|expression| *expression == Expression::Idle)
}

fn read_one(expression: &[u8]) -> Vec<Expression> {
    let name = attribute(expression, NFTA_EXPR_NAME).map(text).unwrap_or_default();
    let data = attribute(expression, NFTA_EXPR_DATA).unwrap_or(&[]);
    if name == "match" {
        return xtables::read(data);
    }
    let read = match name.as_str() {
        "immediate" => immediate(data),
        "meta" => load(data, [1, 2, 3], Source::Meta),
        "ct" => load(data, [1, 2, 4], Source::Connection),
        "payload" => payload(data),
        "cmp" => compare(data),
        "range" => range(data),
        "bitwise" => mask(data),
        "byteorder" => swap(data),
        "lookup" => lookup(data),
        "fib" => fib(data),
        "counter" | "last" => Some(Expression::Idle),
        "objref" if attribute(data, 1).and_then(number) == Some(COUNTER) => Some(Expression::Idle),
        // It writes.
        "exthdr" if attribute(data, 7).is_some() => Some(Expression::Acts("exthdr that writes".to_owned())),
        "reject" => Some(Expression::Decide(Verdict::Refuse("rejects"))),
        // An action of iptables, in iptables' own form.
        "target" => Some(target(data)),
        other => unknown(other),
    };
    vec![read.unwrap_or_else(|| Expression::Acts(if name.is_empty() { "an expression without a name".to_owned() } else { name }))]
}

fn unknown(name: &str) -> Option<Expression> {
    if let Some((_, why)) = UNKNOWNS.iter().find(|(known, _)| *known == name) {
        return Some(Expression::Unknown(why));
    }
    ACTIONS.iter().find(|(known, _)| *known == name).map(|(_, words)| Expression::Acts((*words).to_owned()))
}

fn target(data: &[u8]) -> Expression {
    match attribute(data, 1).map(text) {
        Some(name) if name == "REJECT" => Expression::Decide(Verdict::Refuse("rejects")),
        name => Expression::Acts(name.unwrap_or("a target".to_owned())),
    }
}

/// Attributes: the register that is written, the key, and the one of an expression that writes to the packet instead.
fn load(data: &[u8], [register, key, writes]: [u16; 3], source: fn(u32) -> Source) -> Option<Expression> {
    if attribute(data, writes).is_some() {
        return None;
    }
    let to = place(number(attribute(data, register)?)?)?;
    Some(Expression::Load { to, source: source(number(attribute(data, key)?)?) })
}

/// Only the type of one address is known: that of the machine's own.
fn fib(data: &[u8]) -> Option<Expression> {
    let [to, result, flags] = [1, 2, 3].map(|kind| attribute(data, kind).and_then(number));
    Some(match (result?, flags?) {
        (FIB_ADDRTYPE, FIB_SADDR) => Expression::Load { to: place(to?)?, source: Source::AddressType { of_source: true } },
        (FIB_ADDRTYPE, FIB_DADDR) => Expression::Load { to: place(to?)?, source: Source::AddressType { of_source: false } },
        _ => Expression::Unknown("the route (fib)"),
    })
}

fn payload(data: &[u8]) -> Option<Expression> {
    let [to, base, offset, len] = [1, 2, 3, 4].map(|kind| attribute(data, kind).and_then(number));
    let (to, offset, len) = (place(to?)?, offset? as usize, len? as usize);
    fits(to, len.next_multiple_of(4)).then_some(())?;
    Some(Expression::Load { to, source: Source::Payload { base: base?, offset, len } })
}

fn compare(data: &[u8]) -> Option<Expression> {
    let at = place(number(attribute(data, 1)?)?)?;
    let (operator, value) = (number(attribute(data, 2)?)?, value(attribute(data, 3)?)?);
    (operator <= 5 && fits(at, value.len())).then_some(Expression::Compare { at, operator, value })
}

fn range(data: &[u8]) -> Option<Expression> {
    let at = place(number(attribute(data, 1)?)?)?;
    let outside = match number(attribute(data, 2)?)? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (low, high) = (value(attribute(data, 3)?)?, value(attribute(data, 4)?)?);
    (low.len() == high.len() && fits(at, low.len())).then(|| Expression::Ranges { at, outside, ranges: vec![(low, high)] })
}

fn mask(data: &[u8]) -> Option<Expression> {
    let (from, to) = (place(number(attribute(data, 1)?)?)?, place(number(attribute(data, 2)?)?)?);
    if attribute(data, 6).and_then(number).unwrap_or(MASK_XOR) != MASK_XOR {
        return Some(Expression::Unknown("a part of the packet"));
    }
    let (mask, xor) = (value(attribute(data, 4)?)?, value(attribute(data, 5)?)?);
    let usable = mask.len() == xor.len() && fits(from, mask.len()) && fits(to, mask.len());
    usable.then_some(Expression::Mask { from, to, mask, xor })
}

fn swap(data: &[u8]) -> Option<Expression> {
    let (from, to) = (place(number(attribute(data, 1)?)?)?, place(number(attribute(data, 2)?)?)?);
    let (len, size) = (number(attribute(data, 4)?)? as usize, number(attribute(data, 5)?)? as usize);
    let usable = matches!(size, 2 | 4 | 8) && fits(from, len) && fits(to, len) && len.is_multiple_of(size);
    usable.then_some(Expression::Swap { from, to, len, size })
}

fn lookup(data: &[u8]) -> Option<Expression> {
    let at = place(number(attribute(data, 2)?)?)?;
    // Register 0 is the verdict.
    let to = match attribute(data, 3).and_then(number) {
        None | Some(0) => None,
        Some(register) => Some(place(register)?),
    };
    let inverted = attribute(data, 5).and_then(number).unwrap_or(0) & 1 != 0;
    Some(Expression::Lookup { name: text(attribute(data, 1)?), set: None, at, to, inverted })
}

/// A value for a register, or what a rule decides.
fn immediate(data: &[u8]) -> Option<Expression> {
    let (register, data) = (number(attribute(data, 1)?)?, attribute(data, 2)?);
    if attribute(data, NFTA_DATA_VERDICT).is_some() {
        return Some(Expression::Decide(verdict(data)?));
    }
    let (to, value) = (place(register)?, value(data)?);
    fits(to, value.len()).then_some(Expression::Value { to, value })
}

/// The verdict in NFTA_DATA_*. `None`: there is none.
pub(super) fn verdict(data: &[u8]) -> Option<Verdict> {
    let verdict = attribute(data, NFTA_DATA_VERDICT)?;
    let code = number(attribute(verdict, NFTA_VERDICT_CODE)?)?.cast_signed();
    Some(match (code, attribute(verdict, NFTA_VERDICT_CHAIN).map(text)) {
        (NF_ACCEPT, _) => Verdict::Accept,
        (NF_DROP, _) => Verdict::Refuse("drops"),
        (NFT_CONTINUE, _) => Verdict::Continue,
        (NFT_RETURN, _) => Verdict::Return,
        (NFT_JUMP | NFT_GOTO, Some(name)) => Verdict::Call(Call { name, chain: None, is_goto: code == NFT_GOTO }),
        (code, _) if code >= 0 && code & NF_VERDICT_MASK == NF_QUEUE => Verdict::Acts("queues"),
        _ => Verdict::Acts("an unknown verdict"),
    })
}

/// The value in NFTA_DATA_*.
pub(super) fn value(data: &[u8]) -> Option<Vec<u8>> {
    let value = attribute(data, NFTA_DATA_VALUE)?;
    (!value.is_empty() && value.len() <= BYTES).then(|| value.to_vec())
}

/// The first byte of a register.
fn place(register: u32) -> Option<usize> {
    match register {
        1..=NFT_REG_4 => Some((register as usize - 1) * REGISTER_BYTES),
        NFT_REG32_00..=NFT_REG32_15 => Some((register - NFT_REG32_00) as usize * 4),
        _ => None,
    }
}

fn fits(at: usize, len: usize) -> bool {
    len > 0 && len <= BYTES && at + len <= BYTES
}
