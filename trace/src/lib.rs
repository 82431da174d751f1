//! A passive checker of packet captures: what each end of a connection sent, held against the RFCs.
//!
//! Packets go in one by one ([`Checker::packet`]) or as a capture file ([`check`]); a [`Report`] comes out.
//! Promises: nothing is reported that packets missing from the capture, lost or reordered on the way could
//! explain; hostile files and packets cost memory within limits and never panic. A rule that needs to know
//! the order in which a host sent is only applied where that order is known: to addresses named in
//! [`Options::local`], or where the segment itself proves that it is the newest.
//! Does not do: reassemble fragments or streams, follow UDP beyond its header, decide which end was at fault
//! when both ends may be.
#![forbid(unsafe_code)]

pub mod capture;
mod checker;
pub mod datagram;
mod end;
mod finding;
mod flow;
pub mod link;
mod rules;
pub mod segment;
mod stream;

pub use capture::{Direction, Ending, Packet, ReadError, check, read};
pub use checker::{Checker, FINDINGS_MAX, FLOWS_MAX, Options, Report};
pub use finding::{Finding, Rule, Severity};
pub use flow::FlowReport;
