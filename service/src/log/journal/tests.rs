use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::log::queue::tests::{folder, waiting_in};
use crate::log::queue::{Door, Form, Queue, Sink};

fn entry_of(work: impl FnOnce()) -> String {
    let queue = Queue::new();
    let layer = tracing_subscriber::fmt::layer().event_format(Entry).with_writer(Door::new(&queue, Sink::Journal, Form::Entry));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    waiting_in(&queue)
}

#[test]
fn an_entry_has_a_field_for_each_value_and_values_make_no_fields() {
    let entry = entry_of(|| {
        tracing::warn!(target: "ringway::attach", pid = 7, program = "nginx\nPRIORITY=0", peer.ip = %"10.0.0.1", "it\nRINGWAY_PART=x attaches");
    });
    assert_eq!(
        entry,
        "MESSAGE=it?RINGWAY_PART=x attaches\nPRIORITY=4\nSYSLOG_IDENTIFIER=ringway\nRINGWAY_PART=attach\nRINGWAY_PID=7\n\
         RINGWAY_PROGRAM=nginx?PRIORITY=0\nRINGWAY_PEER_IP=10.0.0.1\n"
    );
    assert_eq!(message_of(&entry), "it?RINGWAY_PART=x attaches");
    assert_eq!(message_of("no entry"), "");
}

#[test]
fn entries_arrive_also_at_a_journal_that_began_again_and_none_is_waited_for() {
    let folder = folder("journal");
    let path = folder.join("socket");
    let mut journal = Journal::at(&path);
    assert!(!journal.send("MESSAGE=1\n"), "there is none");
    let mut room = [0; 64];
    for text in ["MESSAGE=2\n", "MESSAGE=3\n"] {
        let socket = UnixDatagram::bind(&path).expect("a folder of ours");
        assert!(journal.send(text), "also where the old socket is closed");
        let len = socket.recv(&mut room).expect("it was sent");
        assert_eq!(room[..len], *text.as_bytes());
        drop(socket);
        std::fs::remove_file(&path).expect("a file of ours");
    }
    let _unread = UnixDatagram::bind(&path).expect("a folder of ours");
    assert!((0..10_000).any(|_| !journal.send("MESSAGE=4\n")), "a full queue");
    std::fs::remove_dir_all(folder).expect("a folder of ours");
}
