use super::*;

/// A full disk.
struct Full(u32);

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        self.0 += 1;
        Err(std::io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_no_thread() {
    let (sender, lines) = sync_channel(QUEUE);
    for _ in 0..3 {
        sender.send("a line\n".to_owned()).expect("there is room");
    }
    drop(sender);
    let mut disk = Full(0);
    write(&lines, &mut disk);
    assert!(disk.0 >= 3, "each was tried");
}

#[test]
fn a_flood_of_lines_returns_at_once() {
    for _ in 0..QUEUE * 8 {
        notice("one of very many");
    }
}
