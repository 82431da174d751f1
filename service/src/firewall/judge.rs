//! The verdict of the rules on a packet of which only some bits are known.
//!
//! A comparison with bits that are not known may hold or not, so a rule may match or not, and a chain has a set of possible ends.
//! Each rule is looked at once for a packet, and each chain that is called once: what two rules have in common is not kept, which
//! makes more ends possible than there are, and never fewer. Promises: `Accept` means that every packet of the flow passes
//! every chain, whatever the unknown bits are; `Refuse`, that packets of a kind that the flow cannot do without do not pass;
//! a bounded number of steps.

use std::collections::HashMap;

use super::expression::{Call, Expression, Source, TRANSPORT_HEADER, Verdict};
use super::packet::{BYTES, Bits, Flow, Packet, State, Truth, Way};
use super::set::{Data, Found};
use super::{BRIDGE, Chain, INET, IP, IP6, Link, NETDEV, Ruleset};

/// Expressions and elements of sets that are looked at for one flow on one link.
const STEPS_MAX: usize = 200_000;
/// NFT_JUMP_STACK_SIZE
const DEPTH_MAX: usize = 16;

/// enum nft_meta_keys
const META_PROTOCOL: u32 = 1;
const META_IIF: u32 = 4;
const META_OIF: u32 = 5;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
/// enum nft_ct_keys
pub(super) const CT_STATE: u32 = 0;
const CT_DIRECTION: u32 = 1;
/// NF_CT_STATE_BIT of IP_CT_ESTABLISHED and IP_CT_NEW.
const CT_ESTABLISHED: u32 = 2;
const CT_NEW: u32 = 8;
/// enum nft_payload_bases
const NETWORK_HEADER: u32 = 1;
const RTN_LOCAL: u32 = 2;
/// Bytes of an interface's name in a register.
const NAME_BYTES: usize = 16;
const REGISTER_BYTES: usize = 4;
/// enum nft_cmp_ops
const CMP_NEQ: u32 = 1;
/// NF_IP_PRI_CONNTRACK: chains before it do not see what conntrack says.
const CONNTRACK: i32 = -200;

/// The verdict of the rules on a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgment {
    /// Whatever is not known of it, it passes.
    Accept,
    /// It does not, and where.
    Refuse(String),
    /// It depends, or something else than passing or not is done to it, and where.
    Unknown(String),
}

impl Judgment {
    /// Why it is not [`Judgment::Accept`].
    pub(crate) fn objection(self) -> Option<String> {
        match self {
            Judgment::Accept => None,
            Judgment::Refuse(why) | Judgment::Unknown(why) => Some(why),
        }
    }
}

/// Judges a flow on a link.
pub(super) fn judge(ruleset: &Ruleset, link: Link<'_>, flow: Flow) -> Judgment {
    let (mut steps, mut refused, mut depends) = (STEPS_MAX, None, None);
    for packet in Packet::of(flow, link) {
        for chain in &ruleset.chains {
            let Some(view) = View::of(chain, packet) else { continue };
            let mut trial = Trial { ruleset, view, steps: &mut steps, known: HashMap::new() };
            let ends = trial.run_base(chain);
            if let Some(act) = ends.acts {
                return Judgment::Unknown(format!("{}: {act}", chain.place()));
            }
            match (ends.accepts, ends.refuses) {
                (false, Some(how)) if packet.is_needed() => {
                    refused = refused.or_else(|| Some(format!("{}: {how}", chain.place())));
                }
                (false, Some(how)) => {
                    depends = depends.or_else(|| Some(format!("{}: {how}, for datagrams behind the first", chain.place())));
                }
                (true, Some(how)) => {
                    let on = ends.on.unwrap_or("what is not known of a packet");
                    depends = depends.or_else(|| Some(format!("{}: {how}, which depends on {on}", chain.place())));
                }
                (_, None) => {}
            }
        }
    }
    match (refused, depends) {
        (Some(why), _) => Judgment::Refuse(why),
        (None, Some(why)) => Judgment::Unknown(why),
        (None, None) => Judgment::Accept,
    }
}

/// A packet as a chain's hook shows it.
#[derive(Clone, Copy)]
struct View<'a> {
    packet: Packet<'a>,
    /// Conntrack has seen the packet before.
    is_tracked: bool,
    /// The interfaces are ports of a bridge.
    is_bridged: bool,
}

impl<'a> View<'a> {
    /// `None`: the chain sees no such packet.
    fn of(chain: &Chain, packet: Packet<'a>) -> Option<View<'a>> {
        let hook = chain.hook.as_ref()?;
        let sees_family = match chain.family {
            IP => packet.flow.is_ipv4,
            IP6 => !packet.flow.is_ipv4,
            INET | NETDEV | BRIDGE => true,
            _ => false,
        };
        let is_elsewhere = !hook.devices.is_empty() && !hook.devices.iter().any(|name| name == packet.link.name);
        if !sees_family || is_elsewhere || hook.way(chain.family)? != packet.way {
            return None;
        }
        // Input and postrouting come behind the hooks of conntrack.
        let is_inner = matches!(hook.number, 1 | 4);
        let is_tracked = matches!(chain.family, INET | IP | IP6) && (is_inner || hook.number < 5 && hook.priority > CONNTRACK);
        Some(View { packet, is_tracked, is_bridged: chain.family == BRIDGE })
    }

    /// Loads what is known from `source`; says what it depends on where something is not.
    fn load(&self, registers: &mut Bits, to: usize, source: Source) -> Option<&'static str> {
        let packet = &self.packet;
        let mut put = |bytes: &[u8]| {
            let len = bytes.len().next_multiple_of(REGISTER_BYTES);
            if to + len > BYTES {
                return registers.forget(to, BYTES - to);
            }
            registers.set(to, &[0; BYTES][..len]);
            registers.set(to, bytes);
        };
        let name = |has_it| {
            let mut name = [0; NAME_BYTES];
            let known = if has_it { packet.link.name.as_bytes() } else { &[] };
            name.iter_mut().zip(known).for_each(|(place, byte)| *place = *byte);
            name
        };
        let index = |has_it| if has_it { packet.link.index } else { 0 }.to_ne_bytes();
        match source {
            Source::Meta(META_PROTOCOL) => put(if packet.flow.is_ipv4 { &[0x08, 0x00] } else { &[0x86, 0xdd] }),
            Source::Meta(META_NFPROTO) if !self.is_bridged => put(&[if packet.flow.is_ipv4 { IP } else { IP6 }]),
            Source::Meta(META_L4PROTO) => put(&[packet.protocol()]),
            Source::Meta(META_IIF) if !self.is_bridged => put(&index(packet.way == Way::In)),
            Source::Meta(META_OIF) if !self.is_bridged => put(&index(packet.way == Way::Out)),
            Source::Meta(META_IIFNAME) if !self.is_bridged => put(&name(packet.way == Way::In)),
            Source::Meta(META_OIFNAME) if !self.is_bridged => put(&name(packet.way == Way::Out)),
            Source::Connection(CT_STATE) if self.is_tracked => {
                put(&(if packet.state == State::New { CT_NEW } else { CT_ESTABLISHED }).to_ne_bytes());
            }
            Source::Connection(CT_DIRECTION) if self.is_tracked && packet.direction.is_some() => {
                put(&[packet.direction.unwrap_or(0)]);
            }
            // The machine's own address is the source of what leaves, and the destination of what comes.
            Source::AddressType { of_source } if of_source == (packet.way == Way::Out) => put(&RTN_LOCAL.to_ne_bytes()),
            Source::AddressType { .. } => {
                registers.forget(to, REGISTER_BYTES.min(BYTES - to));
                return Some("the route to the peer");
            }
            Source::Payload { base, offset, len } => return self.load_payload(registers, to, (base, offset, len)),
            Source::Meta(_) => {
                registers.forget(to, NAME_BYTES.min(BYTES - to));
                return Some("a property of the packet");
            }
            Source::Connection(_) => {
                registers.forget(to, NAME_BYTES.min(BYTES - to));
                return Some("what conntrack knows");
            }
        }
        None
    }

    fn load_payload(&self, registers: &mut Bits, to: usize, (base, offset, len): (u32, usize, usize)) -> Option<&'static str> {
        let header = match base {
            NETWORK_HEADER => &self.packet.network,
            TRANSPORT_HEADER => &self.packet.transport,
            _ => &Bits::UNKNOWN,
        };
        let padded = len.next_multiple_of(REGISTER_BYTES);
        registers.set(to, &[0; BYTES][..padded]);
        if offset.checked_add(len).is_none_or(|end| end > BYTES) {
            registers.forget(to, len);
            return Some("what is in the packet");
        }
        registers.copy(to, header, (offset, len));
        let peer = if self.packet.way == Way::In { [12..16, 8..24] } else { [16..20, 24..40] };
        let is_peer = if self.packet.flow.is_ipv4 { peer[0].contains(&offset) } else { peer[1].contains(&offset) };
        match (registers.is_known(to, len), base) {
            (true, _) => None,
            (false, NETWORK_HEADER) if is_peer => Some("the peer's address"),
            (false, TRANSPORT_HEADER) if offset < 4 => Some("ports"),
            (false, _) => Some("what is in the packet"),
        }
    }
}

/// The ways in which a packet can leave a chain.
#[derive(Clone, Debug, Default)]
struct Ends {
    accepts: bool,
    /// The way of refusal.
    refuses: Option<&'static str>,
    /// Something is done to it that the stack does not do.
    acts: Option<String>,
    /// Behind the last rule, or by a return.
    falls: bool,
    /// The property that decides among several.
    on: Option<&'static str>,
}

impl Ends {
    fn act(why: &str) -> Ends {
        Ends { acts: Some(why.to_owned()), ..Ends::default() }
    }

    /// Adds the ends of a chain that was called; not that it may come back.
    fn add(&mut self, called: &Ends) {
        self.accepts |= called.accepts;
        self.refuses = self.refuses.or(called.refuses);
        if self.acts.is_none() {
            self.acts.clone_from(&called.acts);
        }
        self.on = self.on.or(called.on);
    }
}

/// The effect of a rule on a packet.
struct Effect {
    /// Truth of "the rule matches".
    matches: Truth,
    /// One of these, or (where it says nothing) nothing.
    verdicts: Vec<Verdict>,
    acts: Option<String>,
    on: Option<&'static str>,
}

/// A packet before one base chain.
struct Trial<'a, 'b> {
    ruleset: &'a Ruleset,
    view: View<'a>,
    steps: &'b mut usize,
    /// The ends of chains that were called, by place; `None`: it is being looked at.
    known: HashMap<usize, Option<Ends>>,
}

impl Trial<'_, '_> {
    fn run_base(&mut self, chain: &Chain) -> Ends {
        let mut ends = self.run(chain, 0);
        if std::mem::take(&mut ends.falls) {
            match chain.drops {
                true => ends.refuses = ends.refuses.or(Some("policy drop")),
                false => ends.accepts = true,
            }
        }
        ends
    }

    fn run(&mut self, chain: &Chain, depth: usize) -> Ends {
        let mut ends = Ends::default();
        for rule in &chain.rules {
            let effect = self.try_rule(rule);
            if let Some(act) = effect.acts {
                return Ends::act(&act);
            }
            if effect.matches == Truth::No {
                continue;
            }
            if effect.matches == Truth::Maybe || effect.verdicts.len() > 1 {
                ends.on = ends.on.or(effect.on);
            }
            let mut goes_on = effect.matches == Truth::Maybe || effect.verdicts.is_empty();
            for verdict in &effect.verdicts {
                goes_on |= self.obey(verdict, depth, &mut ends);
                if ends.acts.is_some() {
                    return ends;
                }
            }
            if !goes_on {
                return ends;
            }
        }
        ends.falls = true;
        ends
    }

    /// Adds what a verdict leads to; says whether the next rule may be reached behind it.
    fn obey(&mut self, verdict: &Verdict, depth: usize, ends: &mut Ends) -> bool {
        match verdict {
            Verdict::Accept => ends.accepts = true,
            Verdict::Refuse(how) => ends.refuses = ends.refuses.or(Some(how)),
            Verdict::Return => ends.falls = true,
            Verdict::Continue => return true,
            Verdict::Acts(what) => ends.acts = Some((*what).to_owned()),
            Verdict::Call(call) => {
                let called = self.call(call, depth + 1);
                ends.add(&called);
                ends.falls |= called.falls && call.is_goto;
                return called.falls && !call.is_goto;
            }
        }
        false
    }

    /// Returns the ends of a called chain, which is looked at once for a packet: registers mean nothing from one rule to the next.
    fn call(&mut self, call: &Call, depth: usize) -> Ends {
        let Some(place) = call.chain else { return Ends::act(&format!("calls the chain {}, which was not listed", call.name)) };
        if depth > DEPTH_MAX {
            return Ends::act("too many chains call each other");
        }
        match self.known.get(&place) {
            Some(Some(ends)) => return ends.clone(),
            Some(None) => return Ends::act("chains call each other in a circle"),
            None => {}
        }
        self.known.insert(place, None);
        let ruleset = self.ruleset;
        let ends = ruleset.chains.get(place).map_or_else(|| Ends::act("a chain was not listed"), |chain| self.run(chain, depth));
        self.known.insert(place, Some(ends.clone()));
        ends
    }

    fn try_rule(&mut self, rule: &[Expression]) -> Effect {
        let mut registers = Bits::UNKNOWN;
        let mut effect = Effect { matches: Truth::Yes, verdicts: Vec::new(), acts: None, on: None };
        for expression in rule {
            if *self.steps == 0 {
                effect.acts = Some("has more rules than are looked at".to_owned());
                return effect;
            }
            *self.steps -= 1;
            let holds = match expression {
                Expression::Load { to, source } => {
                    effect.on = self.view.load(&mut registers, *to, *source).or(effect.on);
                    Truth::Yes
                }
                Expression::Value { to, value } => {
                    registers.set(*to, value);
                    Truth::Yes
                }
                Expression::Compare { at, operator, value } => compare(&registers, *at, *operator, value),
                Expression::Ranges { at, outside, ranges } => {
                    let inside = ranges.iter().map(|(low, high)| registers.is_between(*at, low, high));
                    inside.fold(Truth::No, Truth::or).negated_if(*outside)
                }
                Expression::Mask { from, to, mask, xor } => {
                    let loaded = registers;
                    registers.copy(*to, &loaded, (*from, mask.len()));
                    mask.iter().zip(xor).enumerate().for_each(|(place, (mask, xor))| registers.mask(to + place, *mask, *xor));
                    Truth::Yes
                }
                Expression::Swap { from, to, len, size } => {
                    let loaded = registers;
                    registers.copy(*to, &loaded, (*from, *len));
                    (0..*len).step_by(*size).for_each(|start| registers.swap(to + start, *size));
                    Truth::Yes
                }
                Expression::Lookup { set, at, to, inverted, .. } => {
                    let holds = self.look_up(&mut registers, &mut effect, (*set, *at, *to)).negated_if(*inverted);
                    if effect.acts.is_some() {
                        return effect;
                    }
                    holds
                }
                Expression::Unknown(why) => {
                    (registers, effect.on) = (Bits::UNKNOWN, Some(*why));
                    Truth::Maybe
                }
                Expression::Idle => Truth::Yes,
                Expression::Decide(verdict) => {
                    effect.verdicts.push(verdict.clone());
                    if *verdict == Verdict::Continue { Truth::Yes } else { return effect }
                }
                Expression::Acts(what) => {
                    effect.acts = Some(what.clone());
                    return effect;
                }
            };
            match holds {
                Truth::No => return Effect { matches: Truth::No, ..effect },
                Truth::Maybe => effect.matches = Truth::Maybe,
                Truth::Yes => {}
            }
        }
        effect
    }

    /// Looks a key up; `to`: the register that a map's value goes to.
    fn look_up(
        &mut self,
        registers: &mut Bits,
        effect: &mut Effect,
        (set, at, to): (Option<usize>, usize, Option<usize>),
    ) -> Truth {
        let Some(set) = set.and_then(|set| self.ruleset.sets.get(set)) else {
            effect.acts = Some("looks into a set that was not listed".to_owned());
            return Truth::Maybe;
        };
        *self.steps = self.steps.saturating_sub(set.steps());
        let (holds, found) = match set.find(registers, at) {
            Found::Nothing => return Truth::No,
            Found::This(data) => (Truth::Yes, vec![data]),
            Found::Perhaps(found) => (Truth::Maybe, found),
            Found::Doubt(why) => {
                effect.on = Some(why);
                if let Some(to) = to {
                    registers.forget(to, BYTES - to);
                }
                // What such a map decides is not known.
                if set.decides {
                    effect.acts = Some(format!("looks into {why}"));
                }
                return Truth::Maybe;
            }
        };
        let is_certain = holds == Truth::Yes;
        for data in found {
            match (data, to) {
                (Data::Verdict(verdict), None) => effect.verdicts.push(verdict.clone()),
                (Data::Value(value), Some(to)) if is_certain && to + value.len() <= BYTES => registers.set(to, value),
                (Data::Value(_), Some(to)) => registers.forget(to, BYTES - to),
                _ => {}
            }
        }
        holds
    }
}

fn compare(registers: &Bits, at: usize, operator: u32, value: &[u8]) -> Truth {
    let (least, greatest) = ([0; BYTES], [0xff; BYTES]);
    let (least, greatest) = (&least[..value.len()], &greatest[..value.len()]);
    match operator {
        // EQ, NEQ
        0 | CMP_NEQ => registers.equals(at, value).negated_if(operator == CMP_NEQ),
        // LT is not GTE, GT is not LTE.
        2 => registers.is_between(at, value, greatest).negated(),
        3 => registers.is_between(at, least, value),
        4 => registers.is_between(at, least, value).negated(),
        _ => registers.is_between(at, value, greatest),
    }
}
