use super::*;

#[test]
fn both_directions_of_a_flow_have_one_queue() {
    let (near, far) = (u32::from_be_bytes([10, 0, 0, 1]).to_be(), u32::from_be_bytes([10, 0, 0, 2]).to_be());
    let mut seen = [0; 4];
    for port in 1024..2048_u16 {
        let there = GetRSSCPUCore(near, far, port.to_be(), 80_u16.to_be(), 4, 0);
        let back = GetRSSCPUCore(far, near, 80_u16.to_be(), port.to_be(), 4, 0);
        assert_eq!(there, back);
        seen[there as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    for queues in [c_int::MIN, 0, 1] {
        assert_eq!(GetRSSCPUCore(near, far, 1, 2, queues, 1), 0);
    }
}

#[test]
fn a_processor_that_is_not_there_is_refused() {
    for cpu in [-1, libc::CPU_SETSIZE, c_int::MAX] {
        assert_eq!(mtcp_core_affinitize(cpu), -1);
    }
}
