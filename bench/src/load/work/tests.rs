//! Work takes its time for each request, and no work takes none.
use super::*;

#[test]
fn work_is_for_each_request() {
    let work = Work::each(Duration::from_micros(300));
    let begun = Instant::now();
    work.on(4);
    assert!(begun.elapsed() >= Duration::from_micros(1200));
    Work::default().on(u64::MAX);
    work.on(0);
}
