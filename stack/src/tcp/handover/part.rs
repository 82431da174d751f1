//! Values as bytes: each part of an image is written and read by the list of its fields, which stands beside the type.
//!
//! Numbers are big-endian; lists begin with their length, options with a byte. Promises: reading takes no memory that the
//! input does not pay for, and ends with a named error for every input that writing cannot make. Does not do: judging what
//! the values mean together; see `check`.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::DecodeError;
use crate::address::SocketAddress;
use crate::config::PathMtuDiscovery;
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::SackBlock;

/// Entries for which a list reserves memory before they are read.
const RESERVED_MAX: usize = 256;

/// A value that is written as bytes.
pub(crate) trait Part: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes the value from the front of `input`.
    fn take(input: &mut &[u8]) -> Result<Self, DecodeError>;

    /// Appends the values of a list, without its length.
    fn put_all(list: &[Self], out: &mut Vec<u8>) {
        list.iter().for_each(|value| value.put(out));
    }

    /// Takes the `count` values of a list.
    fn take_all(input: &mut &[u8], count: usize) -> Result<Vec<Self>, DecodeError> {
        // Each value has a byte at least.
        if count > input.len() {
            return Err(DecodeError::Truncated);
        }
        let mut list = Vec::with_capacity(count.min(RESERVED_MAX));
        for _ in 0..count {
            list.push(Self::take(input)?);
        }
        Ok(list)
    }
}

/// Implements [`Part`] for a struct by its fields, in this order.
macro_rules! parts {
    ($name:ty { $($field:ident),* $(,)? }) => {
        impl $crate::tcp::handover::part::Part for $name {
            fn put(&self, out: &mut alloc::vec::Vec<u8>) {
                // A field that is missing in the list is an error here.
                let Self { $($field),* } = self;
                $($crate::tcp::handover::part::Part::put($field, out);)*
            }

            fn take(input: &mut &[u8]) -> Result<Self, $crate::tcp::handover::DecodeError> {
                Ok(Self { $($field: $crate::tcp::handover::part::Part::take(input)?),* })
            }
        }
    };
}

/// Implements [`Part`] for an enum without fields: its place in this list.
macro_rules! choices {
    ($name:ty { $($choice:ident),* $(,)? }) => {
        impl $crate::tcp::handover::part::Part for $name {
            fn put(&self, out: &mut alloc::vec::Vec<u8>) {
                const ALL: &[$name] = &[$(<$name>::$choice),*];
                // A choice that is missing in the list is an error here.
                match self { $(Self::$choice => {})* }
                out.push(ALL.iter().position(|choice| choice == self).unwrap_or(ALL.len()) as u8);
            }

            fn take(input: &mut &[u8]) -> Result<Self, $crate::tcp::handover::DecodeError> {
                const ALL: &[$name] = &[$(<$name>::$choice),*];
                let place = u8::take(input)?;
                ALL.get(usize::from(place)).copied().ok_or($crate::tcp::handover::DecodeError::Unknown)
            }
        }
    };
}

pub(crate) use {choices, parts};

/// Takes `COUNT` bytes.
fn array<const COUNT: usize>(input: &mut &[u8]) -> Result<[u8; COUNT], DecodeError> {
    let (taken, rest) = input.split_first_chunk().ok_or(DecodeError::Truncated)?;
    *input = rest;
    Ok(*taken)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Part for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn take(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(<$number>::from_be_bytes(array(input)?))
            }
        }
    )*};
}

numbers!(u16, u32, u64);

impl Part for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(input: &mut &[u8]) -> Result<u8, DecodeError> {
        Ok(array::<1>(input)?[0])
    }

    fn put_all(list: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(list);
    }

    fn take_all(input: &mut &[u8], count: usize) -> Result<Vec<u8>, DecodeError> {
        let (taken, rest) = input.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        *input = rest;
        Ok(taken.to_vec())
    }
}

impl Part for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut &[u8]) -> Result<bool, DecodeError> {
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Unknown),
        }
    }
}

impl<T: Part> Part for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut &[u8]) -> Result<Option<T>, DecodeError> {
        if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Part> Part for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        T::put_all(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Vec<T>, DecodeError> {
        let count = u32::take(input)?;
        T::take_all(input, count as usize)
    }
}

impl<A: Part, B: Part> Part for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<(A, B), DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl Part for [u32; 3] {
    fn put(&self, out: &mut Vec<u8>) {
        u32::put_all(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<[u32; 3], DecodeError> {
        Ok([u32::take(input)?, u32::take(input)?, u32::take(input)?])
    }
}

/// A value that costs no bytes.
impl Part for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl Part for SeqNum {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<SeqNum, DecodeError> {
        u32::take(input).map(SeqNum)
    }
}

impl Part for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
    }

    fn take(input: &mut &[u8]) -> Result<IpAddr, DecodeError> {
        match u8::take(input)? {
            4 => Ok(Ipv4Addr::from(array::<4>(input)?).into()),
            6 => Ok(Ipv6Addr::from(array::<16>(input)?).into()),
            _ => Err(DecodeError::Unknown),
        }
    }
}

parts!(SocketAddress { ip, port });
parts!(SackBlock { left, right });
choices!(PathMtuDiscovery { Want, Dont, Do, Probe, Interface, Omit });
