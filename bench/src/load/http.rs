//! The part of HTTP/1.1 that wrk needs: one fixed request and one fixed reply, so that both clients can measure the server.
//!
//! Promises: a request is found however it is split, a reply is compared byte by byte. Does not do: anything else of HTTP.

use std::sync::LazyLock;

use super::message::Corrupt;

/// The client's request.
pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: ringway\r\n\r\n";
/// Beginning of a request, which no message has.
pub const BEGINNING: &[u8] = b"GET ";
/// End of a request.
const END: &[u8] = b"\r\n\r\n";
/// The body of the reply.
const BODY: [u8; 64] = [b'r'; 64];

static REPLY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY.len());
    [head.as_bytes(), &BODY].concat()
});

/// The server's reply.
pub fn reply() -> &'static [u8] {
    &REPLY
}

/// Counts requests by their ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// Matched bytes of the end.
    seen: usize,
}

impl Requests {
    /// Takes `bytes`; returns the number of requests that end in them.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        for byte in bytes {
            self.seen = match () {
                () if *byte == END[self.seen] => self.seen + 1,
                () if *byte == END[0] => 1,
                () => 0,
            };
            if self.seen == END.len() {
                (self.seen, count) = (0, count + 1);
            }
        }
        count
    }
}

/// Counts and compares replies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replies {
    /// Received bytes of the present reply.
    arrived: usize,
}

impl Replies {
    /// Takes `bytes`; returns the number of replies that end in them.
    ///
    /// # Errors
    /// A reply differs from the server's.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<usize, Corrupt> {
        let mut count = 0;
        while !bytes.is_empty() {
            let rest = &reply()[self.arrived..];
            let (piece, later) = bytes.split_at(rest.len().min(bytes.len()));
            if !rest.starts_with(piece) {
                return Err(Corrupt::Content(self.arrived as u32));
            }
            self.arrived += piece.len();
            bytes = later;
            if self.arrived == reply().len() {
                (self.arrived, count) = (0, count + 1);
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
