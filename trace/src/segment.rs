//! One TCP segment as values. Read RFC 9293 §3.1, §3.2, RFC 7323 §2, §3, RFC 2018 §2, §3 first.
//!
//! Promises: options are read to the first mistake, which is named. Does not do: judge.

pub(crate) const FIN: u16 = 0x001;
pub(crate) const SYN: u16 = 0x002;
pub(crate) const RST: u16 = 0x004;
pub(crate) const ACK: u16 = 0x010;
pub(crate) const URG: u16 = 0x020;
pub(crate) const ECE: u16 = 0x040;
pub(crate) const CWR: u16 = 0x080;
/// NS of RFC 3540, AE of RFC 9768.
pub(crate) const AE: u16 = 0x100;
/// Bits without a meaning.
pub(crate) const RESERVED: u16 = 0xe00;

/// Blocks that fit into forty bytes of options.
const SACK_BLOCKS_MAX: usize = 4;

/// The options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: Vec<(u32, u32)>,
    /// TSval and TSecr.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) accurate_ecn: bool,
    /// What is wrong with the list.
    pub(crate) mistake: Option<&'static str>,
}

/// A TCP header with its payload.
#[derive(Clone, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    /// All twelve bits behind the data offset.
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Options,
    pub(crate) options_len: u32,
    /// What was captured.
    pub(crate) payload: &'a [u8],
    /// What was on the wire.
    pub(crate) payload_len: u32,
}

impl Segment<'_> {
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sequence numbers that it takes.
    pub(crate) fn len(&self) -> u32 {
        self.payload_len + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }

    /// `SYN`, `ACK` and so on, for people.
    pub(crate) fn flag_names(&self) -> String {
        let names =
            [(SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (ACK, "ACK"), (URG, "URG"), (ECE, "ECE"), (CWR, "CWR"), (AE, "AE")];
        let set: Vec<&str> = names.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name).collect();
        if set.is_empty() { "no flags".into() } else { set.join(",") }
    }
}

/// Reads a segment whose first bytes were captured, of `wire_len` bytes on the wire.
///
/// # Errors
/// What is wrong with it; `None`: not enough was captured to know.
pub(crate) fn parse(bytes: &[u8], wire_len: u32) -> Result<Segment<'_>, Option<&'static str>> {
    if wire_len < 20 {
        return Err(Some("shorter than a TCP header"));
    }
    let fixed: &[u8; 20] = bytes.first_chunk().ok_or(None)?;
    let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let header_len = u32::from(fixed[12] >> 4) * 4;
    if header_len < 20 {
        return Err(Some("the data offset is below five"));
    }
    if header_len > wire_len {
        return Err(Some("the data offset is beyond the end"));
    }
    let options = bytes.get(20..header_len as usize).ok_or(None)?;
    Ok(Segment {
        source_port: word(0),
        destination_port: word(2),
        sequence: long(4),
        acknowledgment: long(8),
        flags: word(12) & 0xfff,
        window: word(14),
        urgent: word(18),
        options: parse_options(options),
        options_len: header_len - 20,
        payload: &bytes[header_len as usize..],
        payload_len: wire_len - header_len,
    })
}

fn parse_options(mut bytes: &[u8]) -> Options {
    let mut options = Options::default();
    while let [kind, rest @ ..] = bytes {
        match (kind, rest) {
            (0, padding) => {
                if padding.iter().any(|byte| *byte != 0) {
                    options.mistake = Some("what follows the end of options is not zero");
                }
                break;
            }
            (1, _) => bytes = rest,
            (_, [len, ..]) if *len >= 2 && usize::from(*len) <= bytes.len() => {
                let len = usize::from(*len);
                if !options.take(*kind, &bytes[2..len]) {
                    options.mistake = Some("an option has a length that its kind does not have");
                }
                bytes = &bytes[len..];
            }
            _ => {
                options.mistake = Some("an option's length leads out of the header");
                break;
            }
        }
    }
    options
}

impl Options {
    /// Takes one option; `false`: its length is wrong.
    fn take(&mut self, kind: u8, value: &[u8]) -> bool {
        let long = |at: usize| u32::from_be_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
        match (kind, value.len()) {
            (2, 2) => self.mss = Some(u16::from_be_bytes([value[0], value[1]])),
            (3, 1) => self.window_scale = Some(value[0]),
            (4, 0) => self.sack_permitted = true,
            (5, len) if len > 0 && len % 8 == 0 && len / 8 <= SACK_BLOCKS_MAX => {
                self.sack = (0..len).step_by(8).map(|at| (long(at), long(at + 4))).collect();
            }
            (8, 8) => self.timestamps = Some((long(0), long(4))),
            (172 | 174, _) => self.accurate_ecn = true,
            (2..=5 | 8, _) => return false,
            _ => {}
        }
        true
    }
}
