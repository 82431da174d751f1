use super::*;

fn kernel(symbol: &str) -> Frame {
    Frame { symbol: symbol.into(), file: "[kernel.kallsyms]".into() }
}

fn user(symbol: &str) -> Frame {
    Frame { symbol: symbol.into(), file: "/usr/bin/ringway".into() }
}

#[test]
fn patterns_fit_from_end_to_end() {
    for (pattern, text, fits) in [
        ("tcp_*", "tcp_sendmsg", true),
        ("tcp_*", "mptcp_x", false),
        ("*lock*", "a_lock_b", true),
        ("*a*b", "xaxbxb", true),
        ("*a*b", "b", false),
        ("free", "free", true),
        ("free", "freeze", false),
        ("ab*ab", "ab", false),
        ("*", "", true),
    ] {
        assert_eq!(matches(pattern, text), fits, "{pattern} on {text}");
    }
}

#[test]
fn functions_of_both_stacks_find_their_class() {
    let table = Table::load();
    for (frame, class) in [
        (kernel("rep_movs_alternative"), Class::DataCopy),
        (kernel("tcp_rcv_established"), Class::TcpIp),
        (kernel("veth_xmit"), Class::Device),
        (kernel("__alloc_skb"), Class::BufferManagement),
        (kernel("kmem_cache_alloc_node_noprof"), Class::Memory),
        (kernel("_raw_spin_lock_bh"), Class::Lock),
        (kernel("__schedule"), Class::Scheduling),
        (kernel("do_syscall_64"), Class::Other),
        (kernel("pv_native_safe_halt"), Class::Idle),
        (user("<ringway_stack::tcp::Tcp>::transmit"), Class::TcpIp),
        (user("ringway_device::packet::Packet::receive"), Class::Device),
        (user("ringway_shm::arena::Arena::take"), Class::BufferManagement),
        (user("ringway_engine::idle::Idle::wait"), Class::Scheduling),
        (user("__memmove_avx_unaligned_erms"), Class::DataCopy),
        (user("malloc"), Class::Memory),
    ] {
        assert_eq!(table.class_of(std::slice::from_ref(&frame)), Some(class), "{frame:?}");
    }
}

#[test]
fn a_nameless_function_belongs_to_its_nearest_named_caller() {
    let table = Table::load();
    let chain = [kernel("zz9_unheard_of"), kernel("tcp_sendmsg"), kernel("__schedule")];
    assert_eq!(table.class_of(&chain), Some(Class::TcpIp));
    assert_eq!(table.class_of(&chain[..1]), None);
    assert_eq!(table.class_of(&[]), None);
    let entry = [kernel("zz9_unheard_of"), kernel("do_syscall_64"), kernel("tcp_sendmsg")];
    assert_eq!(table.class_of(&entry), None, "the entry of a system call says nothing about what it called");
    assert_eq!(table.class_of(&entry[1..]), Some(Class::Other));
}
