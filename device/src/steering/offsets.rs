//! Where the programs in the kernel find what they ask for: the offsets and numbers of `ringway_wire`, in the assembler's type.

use ringway_wire::{ethernet, icmpv4, icmpv6, ipv4, ipv6};

// In an untagged Ethernet frame.
pub(super) const ETHERTYPE: i32 = ethernet::TYPE_AT as i32;
pub(super) const IP: i32 = ethernet::HEADER_LEN as i32;
pub(super) const ETHERTYPE_IPV4: i32 = ethernet::TYPE_IPV4 as i32;
pub(super) const ETHERTYPE_IPV6: i32 = ethernet::TYPE_IPV6 as i32;

// In an IPv4 header.
pub(super) const V4_FRAGMENT: i32 = ipv4::FRAGMENT_AT as i32;
pub(super) const V4_PROTOCOL: i32 = ipv4::PROTOCOL_AT as i32;
pub(super) const V4_SOURCE: i32 = ipv4::SOURCE_AT as i32;
pub(super) const V4_DESTINATION: i32 = ipv4::DESTINATION_AT as i32;
pub(super) const V4_MIN: i32 = ipv4::HEADER_LEN as i32;
pub(super) const V4_PLAIN: i32 = ipv4::VERSION_AND_LENGTH as i32;
pub(super) const V4_OFFSET_MASK: i32 = ipv4::OFFSET_MASK as i32;
/// More fragments, or an offset.
pub(super) const V4_FRAGMENT_MASK: i32 = (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) as i32;

// In an IPv6 header, and in its fragment header.
pub(super) const V6_NEXT: i32 = ipv6::NEXT_HEADER_AT as i32;
pub(super) const V6_SOURCE: i32 = ipv6::SOURCE_AT as i32;
pub(super) const V6_DESTINATION: i32 = ipv6::DESTINATION_AT as i32;
pub(super) const V6_HEADER: i32 = ipv6::HEADER_LEN as i32;
pub(super) const V6_FRAGMENT_HEADER: i32 = ipv6::FRAGMENT_LEN as i32;
pub(super) const V6_FRAGMENT_OFFSET: i32 = ipv6::FRAGMENT_OFFSET_AT as i32;
pub(super) const V6_OFFSET_MASK: i32 = ipv6::FRAGMENT_OFFSET_MASK as i32;

pub(super) const PROTOCOL_ICMP: i32 = ipv4::PROTOCOL_ICMP as i32;
pub(super) const PROTOCOL_TCP: i32 = ipv4::PROTOCOL_TCP as i32;
pub(super) const PROTOCOL_UDP: i32 = ipv4::PROTOCOL_UDP as i32;
pub(super) const PROTOCOL_FRAGMENT: i32 = ipv6::FRAGMENT as i32;
pub(super) const PROTOCOL_ICMPV6: i32 = ipv6::PROTOCOL_ICMP as i32;

// In a header of TCP, UDP or ICMP.
pub(super) const DESTINATION_PORT: i32 = 2;
pub(super) const PORTS: i32 = 4;
pub(super) const ICMP_HEADER: i32 = icmpv4::HEADER_LEN as i32;
pub(super) const ICMP_ERRORS: &[u8] = &icmpv4::ERRORS;
pub(super) const ICMPV6_ERRORS: &[u8] = &icmpv6::ERRORS;
pub(super) const ICMP_ECHO_REPLY: i32 = icmpv4::ECHO_REPLY as i32;
pub(super) const ICMPV6_ECHO_REPLY: i32 = icmpv6::ECHO_REPLY as i32;
pub(super) const ECHO_IDENTIFIER: i32 = 4;
