//! One TCP segment as values. Read RFC 9293 §3.1, §3.2, RFC 7323 §2, §3, RFC 2018 §2, §3 first.
//!
//! Promises: options are read to the first mistake, which is named. Does not do: judge.

/// No more data from the sender.
pub const FIN: u16 = 0x001;
/// Synchronizes sequence numbers.
pub const SYN: u16 = 0x002;
/// Resets the connection.
pub const RST: u16 = 0x004;
/// The receiver is to pass the data on.
pub const PSH: u16 = 0x008;
/// The acknowledgment counts.
pub const ACK: u16 = 0x010;
/// The urgent pointer counts.
pub const URG: u16 = 0x020;
/// RFC 3168: a mark has arrived.
pub const ECE: u16 = 0x040;
/// RFC 3168: the window was reduced.
pub const CWR: u16 = 0x080;
/// NS of RFC 3540, AE of RFC 9768.
pub const AE: u16 = 0x100;
/// Bits without a meaning.
pub(crate) const RESERVED: u16 = 0xe00;

/// Blocks that fit into forty bytes of options.
const SACK_BLOCKS_MAX: usize = 4;

/// The options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of windows.
    pub window_scale: Option<u8>,
    /// SACK is understood.
    pub sack_permitted: bool,
    /// SACK blocks.
    pub sack: Vec<(u32, u32)>,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// An option of RFC 9768.
    pub accurate_ecn: bool,
    /// What is wrong with the list.
    pub mistake: Option<&'static str>,
}

/// A TCP header with its payload.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// SEG.SEQ
    pub sequence: u32,
    /// SEG.ACK
    pub acknowledgment: u32,
    /// All twelve bits behind the data offset.
    pub flags: u16,
    /// The window as it travels, without the shift.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// The options.
    pub options: Options,
    /// Bytes of the options.
    pub options_len: u32,
    /// What was captured.
    pub payload: &'a [u8],
    /// What was on the wire.
    pub payload_len: u32,
}

impl Segment<'_> {
    /// Returns true when one of the flags is set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// Sequence numbers that it takes.
    #[allow(clippy::len_without_is_empty, reason = "the length of SEG.LEN, not of a container")]
    pub fn len(&self) -> u32 {
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
pub fn parse(bytes: &[u8], wire_len: u32) -> Result<Segment<'_>, Option<&'static str>> {
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
