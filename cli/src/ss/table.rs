//! ss's table: columns as wide as their content, addresses aligned at the port's colon.

use std::io::{self, Write};

use super::{Arguments, Names, Shown, detail, local_address, peer_address, state_name};

/// Prints the header and a line (or, with `-i` and without `-O`, two) for each socket.
pub(super) fn print(out: &mut impl Write, arguments: &Arguments, sockets: &[Shown<'_>], names: &Names) -> io::Result<()> {
    let rows: Vec<Row> = sockets.iter().map(|shown| Row::of(shown, names)).collect();
    let width = |column: fn(&Row) -> &str, least: usize| rows.iter().map(|row| column(row).len()).fold(least, usize::max);
    let widths = Widths {
        state: width(|row| &row.state, "State".len()),
        receive: width(|row| &row.receive, "Recv-Q".len()),
        send: width(|row| &row.send, "Send-Q".len()),
        local: width(|row| &row.local, "Local Address".len()),
        local_port: width(|row| &row.local_port, "Port".len()),
        peer: width(|row| &row.peer, "Peer Address".len()),
        peer_port: width(|row| &row.peer_port, "Port".len()),
    };
    // ss prints the protocol only when both can occur.
    let one = arguments.tcp != arguments.udp;
    if !arguments.no_header {
        let netid = if one { "" } else { "Netid " };
        let head = ["State", "Recv-Q", "Send-Q", "Local Address", "Port", "Peer Address", "Port"].map(str::to_string);
        writeln!(out, "{netid}{}Process", widths.line(&Row::from(head)))?;
    }
    for (row, shown) in rows.iter().zip(sockets) {
        let protocol = match (one, shown.socket.datagrams) {
            (true, _) => "",
            (false, true) => "udp   ",
            (false, false) => "tcp   ",
        };
        write!(out, "{protocol}{}", widths.line(row))?;
        writeln!(out, "{}", detail::text(arguments, shown))?;
    }
    Ok(())
}

struct Row {
    state: String,
    receive: String,
    send: String,
    local: String,
    local_port: String,
    peer: String,
    peer_port: String,
}

impl Row {
    fn of(shown: &Shown<'_>, names: &Names) -> Row {
        let socket = &shown.socket;
        Row::from([
            state_name(socket.state).to_string(),
            socket.receive_queue.to_string(),
            socket.send_queue.to_string(),
            local_address(socket),
            names.port(socket.local.port),
            peer_address(socket),
            names.port(socket.remote.port),
        ])
    }
}

impl From<[String; 7]> for Row {
    fn from([state, receive, send, local, local_port, peer, peer_port]: [String; 7]) -> Row {
        Row { state, receive, send, local, local_port, peer, peer_port }
    }
}

struct Widths {
    state: usize,
    receive: usize,
    send: usize,
    local: usize,
    local_port: usize,
    peer: usize,
    peer_port: usize,
}

impl Widths {
    fn line(&self, row: &Row) -> String {
        format!(
            "{:<state$} {:<receive$} {:<send$} {:>local$}:{:<local_port$} {:>peer$}:{:<peer_port$} ",
            row.state,
            row.receive,
            row.send,
            row.local,
            row.local_port,
            row.peer,
            row.peer_port,
            state = self.state,
            receive = self.receive,
            send = self.send,
            local = self.local,
            local_port = self.local_port,
            peer = self.peer,
            peer_port = self.peer_port,
        )
    }
}
