//! nf_tables messages: requests written, answers read. Read linux/netfilter/nf_tables.h and nfnetlink.h first.
//!
//! Numbers are in network order. A message of another kind is skipped; a chain, rule or set that makes no sense is an error.

use ringway_device::netlink::{
    self, Attributes, DONE, DUMP, DUMP_INTERRUPTED, ERROR, Messages, REQUEST, attribute, put, text, u32_at,
};

use super::expression::{self, Expression};
use super::set::Data;
use super::{Chain, Hook};

/// NFNL_SUBSYS_NFTABLES, which is the upper byte of each kind.
const NFTABLES: u16 = 10 << 8;
const NFT_MSG_NEWCHAIN: u16 = NFTABLES | 3;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
const NFT_MSG_NEWRULE: u16 = NFTABLES | 6;
const NFT_MSG_GETRULE: u16 = NFTABLES | 7;
const NFT_MSG_NEWSET: u16 = NFTABLES | 9;
const NFT_MSG_GETSET: u16 = NFTABLES | 10;
const NFT_MSG_NEWSETELEM: u16 = NFTABLES | 12;
const NFT_MSG_GETSETELEM: u16 = NFTABLES | 13;
const NFT_MSG_NEWGEN: u16 = NFTABLES | 15;
const NFT_MSG_GETGEN: u16 = NFTABLES | 16;

const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
const NFTA_DEVICE_NAME: u16 = 1;
const NF_DROP: u32 = 0;

const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFTA_SET_DATA_TYPE: u16 = 6;
/// NFT_DATA_VERDICT
const VERDICTS: u32 = 0xffff_ff00;
const NFTA_SET_DESC: u16 = 9;
const NFTA_SET_DESC_CONCAT: u16 = 2;
const NFTA_SET_FIELD_LEN: u16 = 1;

const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NFTA_SET_ELEM_EXPR: u16 = 7;
const NFTA_SET_ELEM_OBJREF: u16 = 9;
const NFTA_SET_ELEM_KEY_END: u16 = 10;
const NFTA_SET_ELEM_EXPRESSIONS: u16 = 11;

const NFTA_GEN_ID: u16 = 1;

/// -EBADMSG: a chain, rule or set that makes no sense.
const NOT_READ: i32 = -74;

/// struct nfgenmsg {family u8, version u8, res_id u16}
const GENERIC_BYTES: usize = 4;

/// The lists that can be asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum List<'a> {
    /// The number of the ruleset, which every change makes another one.
    Generation,
    Chains,
    Rules,
    Sets,
    Elements(&'a SetHead),
}

/// A rule and where it stands.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) rule: Vec<Expression>,
}

/// A set without its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetHead {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) name: String,
    pub(super) flags: u32,
    pub(super) key_len: u32,
    /// It is a map of verdicts.
    pub(super) decides: bool,
    /// Lengths of the parts of a key that is put together.
    pub(super) parts: Vec<u32>,
}

/// An element of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) flags: u32,
    pub(super) key: Vec<u8>,
    /// The last key of those that the element stands for.
    pub(super) end: Option<Vec<u8>>,
    pub(super) data: Data,
    /// It does not always count: it has a timeout or expressions of its own.
    pub(super) is_conditional: bool,
}

/// The content of a message.
#[derive(Debug)]
pub(super) enum Message {
    Generation(u32),
    Chain(Chain),
    Rule(Placed),
    Set(SetHead),
    /// Of a set: family, table, name.
    Elements((u8, String, String), Vec<Element>),
    /// The list is complete; negative: an errno.
    Done(i32),
    /// Negative: an errno.
    Error(i32),
}

/// A message and what its header says.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) sequence: u32,
    /// The rules changed while they were listed.
    pub(super) interrupted: bool,
    pub(super) message: Message,
}

/// Asks for everything of one kind, of all families, or for the elements of a set.
pub(super) fn list_request(list: List<'_>, sequence: u32) -> Vec<u8> {
    let (kind, flags) = match list {
        List::Generation => (NFT_MSG_GETGEN, REQUEST),
        List::Chains => (NFT_MSG_GETCHAIN, REQUEST | DUMP),
        List::Rules => (NFT_MSG_GETRULE, REQUEST | DUMP),
        List::Sets => (NFT_MSG_GETSET, REQUEST | DUMP),
        List::Elements(_) => (NFT_MSG_GETSETELEM, REQUEST | DUMP),
    };
    let mut body = vec![0; GENERIC_BYTES];
    if let List::Elements(set) = list {
        body[0] = set.family;
        put(&mut body, NFTA_SET_ELEM_LIST_TABLE, &[set.table.as_bytes(), &[0]].concat());
        put(&mut body, NFTA_SET_ELEM_LIST_SET, &[set.name.as_bytes(), &[0]].concat());
    }
    netlink::message(kind, flags, sequence, &body)
}

/// Reads the messages of one received datagram.
pub(super) fn messages(datagram: &[u8]) -> Vec<Received> {
    let read = |one: netlink::Message<'_>| {
        let interrupted = one.flags & DUMP_INTERRUPTED != 0;
        Some(Received { sequence: one.sequence, interrupted, message: message(one.kind, one.body)? })
    };
    Messages(datagram).filter_map(read).collect()
}

fn message(kind: u16, body: &[u8]) -> Option<Message> {
    match kind {
        DONE => Some(Message::Done(u32_at(body, 0).unwrap_or(0).cast_signed())),
        ERROR => Some(Message::Error(u32_at(body, 0)?.cast_signed())),
        // One that is left out would count as one that is not there.
        NFT_MSG_NEWCHAIN => Some(chain(body).map_or(Message::Error(NOT_READ), Message::Chain)),
        NFT_MSG_NEWRULE => Some(placed(body).map_or(Message::Error(NOT_READ), Message::Rule)),
        NFT_MSG_NEWSET => Some(set_head(body).map_or(Message::Error(NOT_READ), Message::Set)),
        NFT_MSG_NEWSETELEM => Some(elements(body).unwrap_or(Message::Error(NOT_READ))),
        NFT_MSG_NEWGEN => Some(
            attribute(body.get(GENERIC_BYTES..)?, NFTA_GEN_ID)
                .and_then(number)
                .map_or(Message::Error(NOT_READ), Message::Generation),
        ),
        _ => None,
    }
}

fn chain(body: &[u8]) -> Option<Chain> {
    let mut chain = Chain { family: *body.first()?, ..Chain::default() };
    for (kind, payload) in Attributes(body.get(GENERIC_BYTES..)?) {
        match kind {
            NFTA_CHAIN_TABLE => chain.table = text(payload),
            NFTA_CHAIN_NAME => chain.name = text(payload),
            NFTA_CHAIN_HOOK => chain.hook = Some(hook(payload)?),
            NFTA_CHAIN_POLICY => chain.drops = number(payload)? == NF_DROP,
            _ => {}
        }
    }
    Some(chain)
}

fn hook(payload: &[u8]) -> Option<Hook> {
    let mut hook = Hook { number: u32::MAX, priority: 0, devices: Vec::new() };
    for (kind, payload) in Attributes(payload) {
        match kind {
            NFTA_HOOK_HOOKNUM => hook.number = number(payload)?,
            NFTA_HOOK_PRIORITY => hook.priority = number(payload)?.cast_signed(),
            NFTA_HOOK_DEV => hook.devices.push(text(payload)),
            NFTA_HOOK_DEVS => {
                let devices: Vec<_> = Attributes(payload).collect();
                // What is not a name (a pattern of newer kernels) may stand for any interface.
                if devices.iter().any(|(kind, _)| *kind != NFTA_DEVICE_NAME) {
                    return Some(Hook { devices: Vec::new(), ..hook });
                }
                hook.devices.extend(devices.into_iter().map(|(_, name)| text(name)));
            }
            _ => {}
        }
    }
    Some(hook)
}

fn placed(body: &[u8]) -> Option<Placed> {
    let mut placed = Placed { family: *body.first()?, table: String::new(), chain: String::new(), rule: Vec::new() };
    for (kind, payload) in Attributes(body.get(GENERIC_BYTES..)?) {
        match kind {
            NFTA_RULE_TABLE => placed.table = text(payload),
            NFTA_RULE_CHAIN => placed.chain = text(payload),
            NFTA_RULE_EXPRESSIONS => placed.rule = expression::read(payload),
            _ => {}
        }
    }
    Some(placed)
}

fn set_head(body: &[u8]) -> Option<SetHead> {
    let mut head = SetHead { family: *body.first()?, ..SetHead::default() };
    for (kind, payload) in Attributes(body.get(GENERIC_BYTES..)?) {
        match kind {
            NFTA_SET_TABLE => head.table = text(payload),
            NFTA_SET_NAME => head.name = text(payload),
            NFTA_SET_FLAGS => head.flags = number(payload)?,
            NFTA_SET_KEY_LEN => head.key_len = number(payload)?,
            NFTA_SET_DATA_TYPE => head.decides = number(payload)? == VERDICTS,
            NFTA_SET_DESC => {
                let fields = Attributes(attribute(payload, NFTA_SET_DESC_CONCAT).unwrap_or(&[]));
                let len = |(_, field)| number(attribute(field, NFTA_SET_FIELD_LEN)?);
                head.parts = fields.map(len).collect::<Option<_>>()?;
            }
            _ => {}
        }
    }
    Some(head)
}

fn elements(body: &[u8]) -> Option<Message> {
    let (family, data) = (*body.first()?, body.get(GENERIC_BYTES..)?);
    let table = text(attribute(data, NFTA_SET_ELEM_LIST_TABLE)?);
    let set = text(attribute(data, NFTA_SET_ELEM_LIST_SET)?);
    let listed = Attributes(attribute(data, NFTA_SET_ELEM_LIST_ELEMENTS).unwrap_or(&[]));
    let elements = listed.map(|(_, element)| self::element(element)).collect::<Option<_>>()?;
    Some(Message::Elements((family, table, set), elements))
}

fn element(attributes: &[u8]) -> Option<Element> {
    let mut element = Element { flags: 0, key: Vec::new(), end: None, data: Data::Nothing, is_conditional: false };
    for (kind, payload) in Attributes(attributes) {
        match kind {
            NFTA_SET_ELEM_KEY => element.key = expression::value(payload)?,
            NFTA_SET_ELEM_KEY_END => element.end = Some(expression::value(payload)?),
            NFTA_SET_ELEM_FLAGS => element.flags = number(payload)?,
            NFTA_SET_ELEM_DATA => {
                let verdict = expression::verdict(payload).map(Data::Verdict);
                element.data = verdict.or_else(|| expression::value(payload).map(Data::Value))?;
            }
            NFTA_SET_ELEM_TIMEOUT | NFTA_SET_ELEM_OBJREF => element.is_conditional = true,
            NFTA_SET_ELEM_EXPR => element.is_conditional |= !expression::only_counts(payload),
            NFTA_SET_ELEM_EXPRESSIONS => element.is_conditional |= !expression::all_only_count(payload),
            _ => {}
        }
    }
    Some(element)
}

/// A number in network order.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(payload.get(..4)?.try_into().ok()?))
}
