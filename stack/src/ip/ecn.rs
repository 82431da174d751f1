//! Changes the ECN field of headers that are already written. Read RFC 3168 §5 first.

use super::Template;

impl Template {
    /// Clears the ECN field in `headers`, as written by [`push_headers`](Template::push_headers).
    pub(crate) fn clear_ecn(&self, headers: &mut [u8]) {
        let ip = self.link_header_len();
        if headers[ip] >> 4 == 6 {
            headers[ip + 1] &= !0x30;
            return;
        }
        let was = headers[ip + 1] & 3;
        headers[ip + 1] -= was;
        // RFC 1624: the sum of the header decreases by the field's value, so its complement increases.
        let sum = u16::from_be_bytes([headers[ip + 10], headers[ip + 11]]);
        let (sum, carry) = sum.overflowing_add(was as u16);
        headers[ip + 10..ip + 12].copy_from_slice(&(sum + carry as u16).to_be_bytes());
    }
}
