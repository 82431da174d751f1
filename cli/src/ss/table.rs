//! ss's table: columns as wide as their content, addresses aligned at the port's colon.

use std::io::{self, Write};

use super::{Arguments, Names, Shown, detail, local_address, peer_address, state_name};

/// A table that is printed in one part, or in several.
pub(super) struct Table {
    widths: Widths,
    has_header: bool,
}

impl Table {
    /// For one part, as narrow as its content.
    pub(super) fn new() -> Table {
        let head = Row::head();
        Table { widths: Widths::default().with(&[head]), has_header: false }
    }

    /// For parts that are not known yet: as wide as most of them.
    pub(super) fn for_more() -> Table {
        let typical = ["FIN-WAIT-1", "", "", "100.100.100.100", "65535", "100.100.100.100", "65535"].map(str::to_owned);
        Table { widths: Table::new().widths.with(&[Row::from(typical)]), has_header: false }
    }

    /// Prints the header, once, and a line (or, with `-i` and without `-O`, two) for each socket.
    pub(super) fn print(
        &mut self,
        out: &mut impl Write,
        arguments: &Arguments,
        sockets: &[Shown<'_>],
        names: &Names,
    ) -> io::Result<()> {
        let rows: Vec<Row> = sockets.iter().map(|shown| Row::of(shown, names)).collect();
        self.widths = self.widths.with(&rows);
        // ss prints the protocol only when both can occur.
        let one = arguments.tcp != arguments.udp;
        if !arguments.no_header && !std::mem::replace(&mut self.has_header, true) {
            let netid = if one { "" } else { "Netid " };
            writeln!(out, "{netid}{}Process", self.widths.line(&Row::head()))?;
        }
        for (row, shown) in rows.iter().zip(sockets) {
            let protocol = match (one, shown.socket.datagrams) {
                (true, _) => "",
                (false, true) => "udp   ",
                (false, false) => "tcp   ",
            };
            write!(out, "{protocol}{}", self.widths.line(row))?;
            writeln!(out, "{}", detail::text(arguments, shown))?;
        }
        Ok(())
    }
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
    fn head() -> Row {
        Row::from(["State", "Recv-Q", "Send-Q", "Local Address", "Port", "Peer Address", "Port"].map(str::to_owned))
    }

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

#[derive(Clone, Copy, Default)]
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
    /// These, or more where one of the rows needs it.
    fn with(self, rows: &[Row]) -> Widths {
        let width = |column: fn(&Row) -> &str, least: usize| rows.iter().map(|row| column(row).len()).fold(least, usize::max);
        Widths {
            state: width(|row| &row.state, self.state),
            receive: width(|row| &row.receive, self.receive),
            send: width(|row| &row.send, self.send),
            local: width(|row| &row.local, self.local),
            local_port: width(|row| &row.local_port, self.local_port),
            peer: width(|row| &row.peer, self.peer),
            peer_port: width(|row| &row.peer_port, self.peer_port),
        }
    }

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
