//! Lines for the administrator, from threads that must not wait.
//!
//! Promises: [`notice`] returns at once whatever standard error is (a full disk, an unread pipe, closed). Lines beyond
//! a burst of 64 and then fifty a second are dropped, and the next line written reports how many. Does not do: lines
//! that the main thread queues at its end; these may be lost too.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Capacity of the queue, lines.
const QUEUE: usize = 128;
/// Lines written at once before the writer slows down.
const BURST: u32 = 64;
/// Interval between lines after a burst; a pause of this many intervals ends it.
const STEP: Duration = Duration::from_millis(20);
const CALM: u32 = 50;

static WRITER: OnceLock<Option<SyncSender<String>>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Queues `ringway: ` and a line for standard error.
pub fn notice(line: &str) {
    let is_lost = writer().as_ref().is_none_or(|writer| writer.try_send(format!("ringway: {line}\n")).is_err());
    LOST.fetch_add(u64::from(is_lost), Ordering::Relaxed);
}

/// Starts the writing thread with the rights of the calling one; otherwise the first [`notice`] starts it.
pub fn prepare() {
    writer();
}

fn writer() -> &'static Option<SyncSender<String>> {
    WRITER.get_or_init(|| {
        let (sender, lines) = sync_channel(QUEUE);
        let thread = Builder::new().name("ringway-notices".to_owned()).spawn(move || write(&lines, &mut std::io::stderr()));
        thread.is_ok().then_some(sender)
    })
}

/// Writes lines until the last sender is dropped.
fn write(lines: &Receiver<String>, to: &mut dyn Write) {
    let mut burst = 0;
    loop {
        // The wait has an end only after a line: a service that has nothing to say never wakes.
        let next = if burst > 0 { lines.recv_timeout(STEP * CALM) } else { lines.recv().map_err(RecvTimeoutError::from) };
        let line = match next {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                burst = 0;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let lost = LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            to.write_all(format!("ringway: {lost} lines were lost\n").as_bytes()).unwrap_or_default();
        }
        // A failed write has no other place to go.
        to.write_all(line.as_bytes()).unwrap_or_default();
        burst += 1;
        if burst > BURST {
            std::thread::sleep(STEP);
        }
    }
}

#[cfg(test)]
mod tests;
