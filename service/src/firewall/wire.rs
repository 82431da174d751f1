//! nf_tables messages: requests written, answers read. Read linux/netfilter/nf_tables.h and nfnetlink.h first.
//!
//! Numbers are in network order. A message of another kind is skipped, a chain or rule that makes no sense is an error; a chain or rule that is understood in part says so
//! as an objection.

use super::rule::{self, Rule};
use super::{Chain, Hook};
use crate::netlink::wire::{Attributes, HEADER_BYTES, finish, header, text, u16_at, u32_at};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x001;
const NLM_F_DUMP_INTR: u16 = 0x010;
const NLM_F_DUMP: u16 = 0x300;

/// NFNL_SUBSYS_NFTABLES, which is the upper byte of each kind.
const NFTABLES: u16 = 10 << 8;
const NFT_MSG_NEWCHAIN: u16 = NFTABLES | 3;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
const NFT_MSG_NEWRULE: u16 = NFTABLES | 6;
const NFT_MSG_GETRULE: u16 = NFTABLES | 7;

const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
const NFTA_DEVICE_NAME: u16 = 1;
const NF_DROP: u32 = 0;

const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;

/// -EBADMSG: a chain or rule that makes no sense.
const NOT_READ: i32 = -74;

/// struct nfgenmsg {family u8, version u8, res_id u16}
const GENERIC_BYTES: usize = 4;

/// What can be listed.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    Chains,
    Rules,
}

/// A rule and where it stands.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) rule: Rule,
}

/// What a message says.
#[derive(Debug)]
pub(super) enum Message {
    Chain(Chain),
    Rule(Placed),
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

/// Asks for everything of one kind, of all families.
pub(super) fn list_request(list: List, sequence: u32) -> Vec<u8> {
    let kind = match list {
        List::Chains => NFT_MSG_GETCHAIN,
        List::Rules => NFT_MSG_GETRULE,
    };
    let mut request = header(kind, NLM_F_REQUEST | NLM_F_DUMP, sequence);
    request.extend([0; GENERIC_BYTES]);
    finish(request)
}

/// The messages of one received datagram.
pub(super) fn messages(mut datagram: &[u8]) -> Vec<Received> {
    let mut received = Vec::new();
    while let Some(len) = u32_at(datagram, 0).map(|len| len as usize) {
        if len < HEADER_BYTES || len > datagram.len() {
            break;
        }
        let (kind, flags) = (u16_at(datagram, 4).unwrap_or(0), u16_at(datagram, 6).unwrap_or(0));
        let sequence = u32_at(datagram, 8).unwrap_or(0);
        if let Some(message) = message(kind, &datagram[HEADER_BYTES..len]) {
            received.push(Received { sequence, interrupted: flags & NLM_F_DUMP_INTR != 0, message });
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    received
}

fn message(kind: u16, body: &[u8]) -> Option<Message> {
    match kind {
        NLMSG_DONE => Some(Message::Done(u32_at(body, 0).unwrap_or(0).cast_signed())),
        NLMSG_ERROR => Some(Message::Error(u32_at(body, 0)?.cast_signed())),
        // One that is left out would count as one that is not there.
        NFT_MSG_NEWCHAIN => Some(chain(body).map_or(Message::Error(NOT_READ), Message::Chain)),
        NFT_MSG_NEWRULE => Some(placed(body).map_or(Message::Error(NOT_READ), Message::Rule)),
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
    let mut hook = Hook { number: u32::MAX, devices: Vec::new() };
    for (kind, payload) in Attributes(payload) {
        match kind {
            NFTA_HOOK_HOOKNUM => hook.number = number(payload)?,
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
    let mut placed = Placed { family: *body.first()?, table: String::new(), chain: String::new(), rule: Rule::default() };
    for (kind, payload) in Attributes(body.get(GENERIC_BYTES..)?) {
        match kind {
            NFTA_RULE_TABLE => placed.table = text(payload),
            NFTA_RULE_CHAIN => placed.chain = text(payload),
            NFTA_RULE_EXPRESSIONS => placed.rule = rule::read(payload),
            _ => {}
        }
    }
    Some(placed)
}

/// A number in network order.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(payload.get(..4)?.try_into().ok()?))
}
