//! System calls of a script: converts their line to a call of the machine, and compares the result with the expected one.

use ringway_shm::Duration;

use super::arguments::{Parsed, field, number, split};
use super::parse::Family;
use crate::machine::{Answer, Call, Machine, Progress};

/// Begins a call.
pub(super) fn begin(machine: &mut Machine, family: Family, parsed: &Parsed<'_>) -> Result<Progress, String> {
    let arguments = &parsed.arguments;
    let text = |index: usize| arguments.get(index).copied().ok_or_else(|| format!("argument {index} is missing"));
    let value = |index: usize| text(index).and_then(|text| number(text).ok_or(format!("{text} is not a number")));
    let fd = || value(0).map(|fd| fd as i32);
    let flags = |index: usize| arguments.get(index).and_then(|text| number(text)).unwrap_or(0) as i32;
    if parsed.name != "splice" && text(1).is_ok_and(|buffer| buffer == "NULL") && value(2).is_ok_and(|count| count > 0) {
        return Ok(Progress::Done(Answer::error(libc::EFAULT)));
    }
    let call = match parsed.name {
        "accept" => Call::Accept { fd: fd()?, flags: 0 },
        "connect" if text(1)? == "AF_UNSPEC" => return Ok(Progress::Done(machine.disconnect(fd()?))),
        "connect" => Call::Connect { fd: fd()?, to: family.remote() },
        "read" | "recv" | "recvfrom" => Call::Receive { fd: fd()?, count: value(2)? as usize, flags: flags(3) },
        "readv" | "recvmsg" => Call::Receive { fd: fd()?, count: pieces(text(1)?), flags: message_flags(parsed) },
        "sendto" if flags(3) & libc::MSG_FASTOPEN != 0 => {
            let bytes = vec![0; value(2)? as usize];
            let to = (text(4)? != "AF_UNSPEC").then(|| family.remote());
            Call::SendFast { fd: fd()?, to, bytes, flags: flags(3) }
        }
        "sendmsg" if message_flags(parsed) & libc::MSG_FASTOPEN != 0 => {
            let bytes = vec![0; pieces(text(1)?)];
            Call::SendFast { fd: fd()?, to: Some(family.remote()), bytes, flags: message_flags(parsed) }
        }
        "write" | "send" | "sendto" => Call::Send { fd: fd()?, bytes: vec![0; value(2)? as usize], flags: flags(3) },
        "writev" | "sendmsg" => Call::Send { fd: fd()?, bytes: vec![0; pieces(text(1)?)], flags: message_flags(parsed) },
        "poll" => poll(text(0)?, value(2)?)?,
        "close" => Call::Close { fd: fd()? },
        "splice" => {
            Call::Splice { from: fd()?, to: value(2)? as i32, count: value(4)? as usize, flags: flags(5).cast_unsigned() }
        }
        "epoll_wait" => Call::EpollWait { fd: fd()?, count: value(2)? as usize, timeout: timeout(value(3)?) },
        _ => return at_once(machine, family, parsed).map(Progress::Done),
    };
    Ok(machine.begin(call))
}

/// Makes a call that never waits.
fn at_once(machine: &mut Machine, family: Family, parsed: &Parsed<'_>) -> Result<Answer, String> {
    let arguments = &parsed.arguments;
    let text = |index: usize| arguments.get(index).copied().ok_or_else(|| format!("argument {index} is missing"));
    let value = |index: usize| text(index).and_then(|text| number(text).ok_or(format!("{text} is not a number")));
    let int = |index: usize| value(index).map(|value| value as i32);
    Ok(match parsed.name {
        "socket" => machine.socket(family.domain(), int(1)?, int(2)?),
        "bind" => machine.bind(int(0)?, family.local()),
        "listen" => machine.listen(int(0)?, int(1)?),
        "shutdown" => machine.shutdown(int(0)?, int(1)?),
        "setsockopt" => {
            let bytes = option_value(text(3)?)?;
            machine.set_option(int(0)?, int(1)?, int(2)?, &bytes)
        }
        "getsockopt" => match machine.option(int(0)?, int(1)?, int(2)?) {
            Ok(bytes) => compare_option(text(3)?, &bytes)?,
            Err(errno) => Answer::error(errno),
        },
        "fcntl" if int(1)? == libc::F_GETFL => match machine.nonblocking(int(0)?) {
            Ok(on) => Answer::value(i64::from(libc::O_RDWR | if on { libc::O_NONBLOCK } else { 0 })),
            Err(errno) => Answer::error(errno),
        },
        "fcntl" => {
            let on = int(2)? & libc::O_NONBLOCK != 0;
            machine.set_nonblocking(int(0)?, on)
        }
        "ioctl" => ioctl(machine, int(0)?, value(1)?, text(2)?)?,
        "pipe" => pipe(machine, text(0)?)?,
        "epoll_create" | "epoll_create1" => machine.epoll_create(),
        "epoll_ctl" => {
            let events = field(text(3)?, "events").and_then(number).unwrap_or(0) as u32;
            let data = field(text(3)?, "fd").and_then(number).unwrap_or(0) as u64;
            machine.epoll_control(int(0)?, int(1)?, int(2)?, libc::epoll_event { events, u64: data })
        }
        other => return Err(format!("the call {other} is not known")),
    })
}

fn ioctl(machine: &mut Machine, fd: i32, request: i64, expected: &str) -> Result<Answer, String> {
    let answer = match request {
        request if request == libc::FIONREAD as i64 => machine.control(fd, libc::FIONREAD),
        request if request == libc::TIOCOUTQ as i64 => machine.control(fd, libc::TIOCOUTQ),
        request if request == SIOCATMARK => machine.control(fd, SIOCATMARK as u64),
        _ => return Ok(Answer::error(libc::EINVAL)),
    };
    let wanted = number(expected.trim_matches(['[', ']']));
    if answer.errno == 0 && wanted.is_some_and(|wanted| wanted != answer.value) {
        return Err(format!("expected {expected}, got {}", answer.value));
    }
    Ok(if answer.errno == 0 { Answer::value(0) } else { answer })
}

/// pipe(2): gives its ends the two numbers that the script uses.
fn pipe(machine: &mut Machine, numbers: &str) -> Result<Answer, String> {
    let inside = numbers.trim_matches(['[', ']']);
    let wanted: Vec<i32> = split(inside).into_iter().filter_map(number).map(|fd| fd as i32).collect();
    let [reader, writer] = wanted[..] else { return Err(format!("{numbers} is not two descriptors")) };
    let ends = match machine.pipe() {
        Ok(ends) => ends,
        Err(errno) => return Ok(Answer::error(errno)),
    };
    // The first number may be the second end's until that end is renumbered.
    let renumbered = machine.renumber(ends.1, writer) && machine.renumber(ends.0, reader);
    if renumbered { Ok(Answer::value(0)) } else { Err(format!("{numbers} are taken")) }
}

/// linux/sockios.h
const SIOCATMARK: i64 = 0x8905;

/// Returns the longest wait; a negative number is none.
fn timeout(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

fn poll(set: &str, timeout_ms: i64) -> Result<Call, String> {
    let inside = set.trim().strip_prefix('[').and_then(|set| set.strip_suffix(']')).ok_or("poll wants a list")?;
    let entry = |text: &str| Some((field(text, "fd").and_then(number)? as i32, field(text, "events").and_then(number)? as i16));
    let set = split(inside).into_iter().map(entry).collect::<Option<_>>().ok_or("an entry of poll has fd and events")?;
    Ok(Call::Poll { set, timeout: timeout(timeout_ms) })
}

/// Returns the sum of all lengths `{..., n}` in a list of pieces.
fn pieces(text: &str) -> usize {
    let list = text.split_once("=[").or_else(|| text.split_once("= [")).map_or(text, |(_, rest)| rest);
    let lengths = list.split('{').filter_map(|piece| piece.split_once(',')?.1.split('}').next()?.trim().parse::<usize>().ok());
    lengths.sum()
}

fn message_flags(parsed: &Parsed<'_>) -> i32 {
    parsed.arguments.get(2).filter(|_| parsed.name.ends_with("msg")).and_then(|text| number(text)).unwrap_or(0) as i32
}

/// `[1]`, `{onoff=1, linger=0}`, `"reno"`.
fn option_value(text: &str) -> Result<Vec<u8>, String> {
    let inside = text.trim().trim_start_matches('[').trim_end_matches(']').trim();
    if let Some(word) = inside.strip_prefix('"') {
        return unescape(word.trim_end_matches('"'));
    }
    let both = |first: Option<&str>, second: Option<&str>| Some((number(first?)?, number(second?)?));
    if let Some((on, seconds)) = both(field(inside, "onoff"), field(inside, "linger")) {
        return Ok([(on as i32).to_ne_bytes(), (seconds as i32).to_ne_bytes()].concat());
    }
    if let Some((seconds, micros)) = both(field(inside, "tv_sec"), field(inside, "tv_usec")) {
        return Ok([seconds.to_ne_bytes(), micros.to_ne_bytes()].concat());
    }
    let value = number(inside).ok_or_else(|| format!("{text} is not an option's value"))?;
    Ok((value as i32).to_ne_bytes().to_vec())
}

/// Decodes C's notation of a byte by two digits, `\xa1`, among letters.
fn unescape(word: &str) -> Result<Vec<u8>, String> {
    let mut pieces = word.split("\\x");
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.ok_or_else(|| format!("{piece} does not begin with two digits"))?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Ok(bytes)
}

fn compare_option(expected: &str, bytes: &[u8]) -> Result<Answer, String> {
    if expected.contains("...") {
        return Ok(Answer::value(0));
    }
    let wanted = option_value(expected)?;
    if bytes.starts_with(&wanted) {
        return Ok(Answer::value(0));
    }
    let got = bytes.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    Err(format!("expected the option to be {expected}, it is {got:?}"))
}

/// Compares the control message of recvmsg(2) with the line: number of bytes still to be read (TCP_CM_INQ).
fn compare_control(parsed: &Parsed<'_>, answer: &Answer) -> Result<(), String> {
    let control = parsed.arguments.get(1).filter(|_| parsed.name == "recvmsg" && answer.value >= 0);
    let Some((_, control)) = control.and_then(|message| message.split_once("TCP_CM_INQ")) else { return Ok(()) };
    let wanted = control.split_once("cmsg_data=").and_then(|(_, data)| data.split('}').next()).and_then(number);
    let got = answer.inq.map(i64::from);
    if wanted == got { Ok(()) } else { Err(format!("expected TCP_CM_INQ {wanted:?}, got {got:?}")) }
}

/// Compares the result with the line.
pub(super) fn compare(parsed: &Parsed<'_>, answer: &Answer) -> Result<(), String> {
    let errno = parsed.errno.map(|name| number(name).ok_or_else(|| format!("{name} is not an errno"))).transpose()?;
    if answer.value != parsed.value || errno.is_some_and(|errno| errno != i64::from(answer.errno)) {
        let expected = parsed.errno.map(|name| format!(" {name}")).unwrap_or_default();
        let got = std::io::Error::from_raw_os_error(answer.errno);
        return Err(format!("expected {}{expected}, got {} ({got})", parsed.value, answer.value));
    }
    compare_control(parsed, answer)?;
    if parsed.name == "poll" {
        let inside = parsed.arguments[0].trim().trim_start_matches('[').trim_end_matches(']');
        for (entry, reported) in split(inside).iter().zip(&answer.reported) {
            let wanted = field(entry, "revents").and_then(number);
            if wanted.is_some_and(|wanted| wanted != i64::from(*reported)) {
                return Err(format!("poll reports {reported:#x} for {entry}"));
            }
        }
    }
    if parsed.name == "epoll_wait" && answer.value > 0 {
        let wanted = field(parsed.arguments[1], "events").and_then(number);
        if wanted.is_some_and(|wanted| wanted != i64::from(answer.events[0].0)) {
            return Err(format!("epoll reports {:#x}", answer.events[0].0));
        }
    }
    Ok(())
}
