//! Arguments of a call: numbers, names of constants, lists.

/// A call's line: name, arguments as texts, expected value, expected errno's name.
pub(super) struct Parsed<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a str>,
    pub(super) value: i64,
    pub(super) errno: Option<&'a str>,
}

/// Reads `name(arguments) = value ERRNO (text)`.
pub(super) fn read(text: &str) -> Result<Parsed<'_>, String> {
    let open = text.find('(').ok_or("not a call")?;
    let close = text.rfind(") =").ok_or("a call has no result")?;
    let mut result = text[close + 3..].split_whitespace();
    let value = result.next().ok_or("no result")?;
    let value = number(value).ok_or_else(|| format!("{value} is not a result"))?;
    let errno = result.next().and_then(|word| word.split('(').next()).filter(|word| word.starts_with('E'));
    Ok(Parsed { name: text[..open].trim(), arguments: split(&text[open + 1..close]), value, errno })
}

/// Splits at the commas outside brackets.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

/// Reads a number, a constant, or several joined by `|`.
pub(super) fn number(text: &str) -> Option<i64> {
    let part = |word: &str| {
        let word = word.trim();
        let hex = || word.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        word.parse().ok().or_else(hex).or_else(|| constant(word))
    };
    text.split('|').map(part).try_fold(0, |all, value| Some(all | value?))
}

/// Returns the value of `name=` in a structure.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let inside = text.trim().trim_start_matches(['{', '[']).trim_end_matches(['}', ']']);
    split(inside)
        .into_iter()
        .find_map(|part| part.split_once('=').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()))
}

macro_rules! constants {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as i64)),*] };
}

/// Returns the constant of C with this name.
pub(super) fn constant(name: &str) -> Option<i64> {
    CONSTANTS.iter().chain(OURS).find(|(known, _)| *known == name).map(|(_, value)| *value)
}

const CONSTANTS: &[(&str, i64)] = constants! {
    AF_INET AF_INET6 SOCK_STREAM SOCK_NONBLOCK SOCK_CLOEXEC IPPROTO_TCP IPPROTO_IP SOL_SOCKET SOL_TCP SOL_IP AF_UNSPEC
    SO_REUSEADDR SO_SNDBUF SO_RCVBUF SO_KEEPALIVE SO_LINGER SO_ERROR SO_RCVTIMEO SO_SNDTIMEO SO_RCVLOWAT SO_TYPE SO_OOBINLINE
    TCP_NODELAY TCP_CORK TCP_QUICKACK TCP_MAXSEG TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_USER_TIMEOUT TCP_INFO
    IP_MTU_DISCOVER IP_MTU IP_PMTUDISC_DONT IP_PMTUDISC_WANT IP_PMTUDISC_DO IP_PMTUDISC_PROBE IPV6_MTU_DISCOVER IP_RECVERR
    IPV6_TCLASS IPV6_UNICAST_HOPS IPPROTO_IPV6 SO_ZEROCOPY SO_TIMESTAMPING SO_PRIORITY SO_REUSEPORT SO_MAX_PACING_RATE
    TCP_FASTOPEN TCP_FASTOPEN_CONNECT TCP_FASTOPEN_KEY MSG_ZEROCOPY MSG_ERRQUEUE MSG_FASTOPEN
    TCP_SYNCNT TCP_DEFER_ACCEPT TCP_NOTSENT_LOWAT TCP_CONGESTION TCP_LINGER2 TCP_WINDOW_CLAMP IP_TOS IP_TTL
    F_GETFL F_SETFL O_RDWR O_RDONLY O_NONBLOCK SHUT_RD SHUT_WR SHUT_RDWR FIONREAD FIONBIO
    MSG_DONTWAIT MSG_PEEK MSG_WAITALL MSG_MORE MSG_NOSIGNAL MSG_TRUNC MSG_OOB MSG_EOR SPLICE_F_NONBLOCK
    POLLIN POLLOUT POLLERR POLLHUP POLLRDHUP POLLNVAL POLLPRI POLLRDNORM POLLWRNORM
    EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP EPOLLET EPOLLONESHOT EPOLL_CTL_ADD EPOLL_CTL_MOD EPOLL_CTL_DEL
    EAGAIN EWOULDBLOCK ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EINPROGRESS EALREADY EISCONN ENOTCONN
    EINVAL EBADF ENOTSOCK EADDRINUSE EADDRNOTAVAIL EHOSTUNREACH ENETUNREACH ENOPROTOOPT ENOENT EOPNOTSUPP EEXIST
    EMSGSIZE EPROTO EAFNOSUPPORT EPROTONOSUPPORT ENOBUFS EDESTADDRREQ EINTR EFAULT EPERM EACCES EISCONN EADDRNOTAVAIL EDOM ERANGE ENOMEM EPFNOSUPPORT
};

const OURS: &[(&str, i64)] = &[
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCP_INQ", 36),
    ("TCP_CM_INQ", 36),
    ("TCP_FASTOPEN_NO_COOKIE", 34),
    ("TCP_TX_DELAY", 37),
    ("SIOCATMARK", 0x8905),
    ("SIOCINQ", libc::FIONREAD as i64),
    ("SIOCOUTQ", libc::TIOCOUTQ as i64),
];
