//! Draws the model in a terminal, and asks it what keys mean.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell as TableCell, Clear, Paragraph, Row as TableRow, Sparkline, Table, TableState, Wrap};
use ratatui::{DefaultTerminal, Frame};
use rustix::process::{Signal, getpid, kill_process};

use super::cell::Cell;
use super::history::Point;
use super::model::{Action, Model, Overlay, View, table_of};
use super::sample::{Sample, Socket};
use super::sheet::Sheet;
use super::sheets::{Rates, Total};
use crate::ss::{describe, info_words, is_counted};

/// How soon a signal is seen.
const GLANCE: Duration = Duration::from_millis(100);

const HELP: &str = "\
1 2 3 4, Tab    workers and interfaces, programs, connections, drops
up, down, k, j  select a row; PgUp, PgDn, Home, End
Enter           from a program to its connections, from one to its history
Esc             back; in a table: no filter, all programs
s, S            sort by the column to the right, left
r               reverse the order
/               filter connections, as `ringway ss` does: dport = :443
p               pause; space reads once
+, -            wait longer, shorter between two readings
q, Ctrl-C       end

RETR      segments sent again per second
DROP      packets lost at an interface per second
UNREAD    bytes received, and not yet read by the program
UNACKED   bytes sent, and not yet acknowledged by the peer
KERNEL    sockets that the kernel serves; `ringway why PROGRAM` tells the reason
BATCH     packets in each turn of a worker
FREE      large frames that are free; SMALL: small ones";

/// Shows the model until a key or a signal ends it.
pub(super) fn run(mut model: Model, read: impl Fn() -> io::Result<Sample>, end: &AtomicBool) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let done = events(&mut terminal, &mut model, &read, end);
    ratatui::try_restore()?;
    done
}

fn events(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    read: &impl Fn() -> io::Result<Sample>,
    end: &AtomicBool,
) -> io::Result<()> {
    let mut due = Instant::now();
    while !end.load(Ordering::Relaxed) {
        if Instant::now() >= due && !model.paused {
            take(model, read);
            due = Instant::now() + model.delay;
            terminal.draw(|frame| draw(frame, model))?;
        }
        let wait = due.saturating_duration_since(Instant::now()).min(GLANCE);
        if !event::poll(if model.paused { GLANCE } else { wait })? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match model.key(key) {
                Action::Quit => return Ok(()),
                Action::Read => take(model, read),
                Action::Stop => *terminal = stop()?,
                Action::Draw => {}
            },
            _ => {}
        }
        terminal.draw(|frame| draw(frame, model))?;
    }
    Ok(())
}

fn take(model: &mut Model, read: &impl Fn() -> io::Result<Sample>) {
    match read() {
        Ok(sample) => model.add(sample),
        // It may come back.
        Err(error) => model.message = Some(error.to_string()),
    }
}

/// Stops as other programs do at Ctrl-Z, and makes the terminal ready again when the shell goes on with this one.
fn stop() -> io::Result<DefaultTerminal> {
    ratatui::try_restore()?;
    kill_process(getpid(), Signal::STOP)?;
    ratatui::try_init()
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, tabs, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let rates = model.rates();
    if let Some(rates) = &rates {
        frame.render_widget(Paragraph::new(head_lines(model, &rates.total)), head);
    }
    frame.render_widget(tabs_line(model), tabs);
    match (&model.overlay, rates) {
        (Overlay::Help, _) => frame.render_widget(Paragraph::new(HELP), body),
        (Overlay::Connection(id), _) => connection(frame, body, model, id),
        (_, Some(rates)) => tables(frame, body, model, rates),
        (_, None) => {}
    }
    frame.render_widget(foot_line(model), foot);
}

fn head_lines(model: &Model, total: &Total) -> Vec<Line<'static>> {
    let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let number = |number: f64| Cell::Number(number).text();
    let time = model.latest().map_or_else(String::new, |sample| clock(sample.time));
    let Total { services, workers, programs, connections, .. } = *total;
    let first = format!(
        "ringway top  {time}  {}, {}, {}, {}",
        count(services, "service"),
        count(workers, "worker"),
        count(programs, "program"),
        count(connections, "connection"),
    );
    let [[bits_in, bits_out], [packets_in, packets_out]] = [total.bits, total.packets];
    // What is cut at a narrow terminal's edge is what the table of interfaces shows too.
    let second = format!(
        "busy {}  drop {}/s  retr {}/s  in {} bit/s {} pkt/s  out {} bit/s {} pkt/s",
        Cell::Share(total.busy).text(),
        number(total.dropped),
        number(total.retransmitted),
        number(bits_in),
        number(packets_in),
        number(bits_out),
        number(packets_out),
    );
    vec![Line::styled(first, Modifier::BOLD), Line::raw(second)]
}

/// Hours, minutes and seconds of UTC.
fn clock(time: std::time::SystemTime) -> String {
    let seconds = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

fn tabs_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, (view, name)) in View::ALL.into_iter().enumerate() {
        let style = if view == model.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {} {name} ", index + 1), style));
    }
    if let Some(program) = &model.program {
        spans.push(Span::raw(format!("  of {program}")));
    }
    if !model.words.is_empty() {
        spans.push(Span::raw(format!("  where {}", model.words)));
    }
    Line::from(spans)
}

fn foot_line(model: &Model) -> Line<'static> {
    if let Overlay::Typing(text) = &model.overlay {
        return Line::raw(format!("filter: {text}_"));
    }
    if let Some(message) = &model.message {
        return Line::styled(message.clone(), Modifier::BOLD);
    }
    let delay = Cell::Number(model.delay.as_secs_f64()).text();
    let pace = if model.paused { "paused, p goes on".to_owned() } else { format!("each {delay} s") };
    Line::styled(format!("{pace}; ? keys, s sort, / filter, Enter in, Esc out, q end"), Modifier::DIM)
}

fn tables(frame: &mut Frame<'_>, area: Rect, model: &Model, mut rates: Rates) {
    if model.view != View::Workers {
        return table(frame, area, model, table_of(&mut rates, model.view));
    }
    let height = |sheet: &Sheet| sheet.rows.len() as u16 + 2;
    let [above, below] = Layout::vertical([Constraint::Length(height(&rates.workers)), Constraint::Min(0)]).areas(area);
    table(frame, above, model, &rates.workers);
    table(frame, below, model, &rates.interfaces);
}

/// Draws as many columns as the area is wide, from the left, and the rows around the selected one.
fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, sheet: &Sheet) {
    let is_main = sheet.name != "interfaces";
    let widths = sheet.widths();
    let mut room = usize::from(area.width) + 1;
    let shown = widths.iter().take_while(|width| room.checked_sub(**width + 1).map(|left| room = left).is_some()).count();
    // A last column of text is cut rather than left out.
    let cut = shown < widths.len() && room > 8 && sheet.is_text(shown);
    let shown = shown + usize::from(cut);
    let aligned = |text: String, index: usize| {
        let text = Line::raw(text);
        if sheet.is_text(index) { text } else { text.right_aligned() }
    };
    let head = sheet.columns.iter().enumerate().take(shown).map(|(index, column)| {
        let style = if is_main && model.order().column == index { Modifier::UNDERLINED } else { Modifier::empty() };
        TableCell::from(aligned(column.title.to_owned(), index)).style(style)
    });
    let selected = model.selected(sheet);
    let rows = sheet.rows.iter().map(|row| {
        TableRow::new(row.cells.iter().enumerate().take(shown).map(|(index, cell)| TableCell::from(aligned(cell.text(), index))))
    });
    let constraints =
        widths.iter().take(shown).enumerate().map(|(index, width)| {
            if cut && index + 1 == shown { Constraint::Fill(1) } else { Constraint::Length(*width as u16) }
        });
    let mut widget = Table::new(rows, constraints).header(TableRow::new(head).style(Modifier::BOLD)).column_spacing(1);
    let mut state = TableState::new();
    if is_main {
        widget = widget.row_highlight_style(Modifier::REVERSED);
        state.select((!sheet.rows.is_empty()).then_some(selected));
    }
    frame.render_stateful_widget(widget, area, &mut state);
}

/// A value of a connection over time: name, value, its form.
type Curve = (&'static str, fn(&Point) -> u64, fn(u64) -> Cell);

/// A connection: its ends, its history, and all that `ringway ss -i` tells.
fn connection(frame: &mut Frame<'_>, area: Rect, model: &Model, id: &str) {
    let Some(Socket { record, service }) = model.socket(id) else {
        return frame.render_widget(Paragraph::new("This socket has gone. Esc goes back."), area);
    };
    let owner = format!("{} (pid {}, uid {}) of service {service}", record.program, record.pid, record.uid);
    let title = vec![Line::styled(describe(record), Modifier::BOLD), Line::raw(owner)];
    let lines: [Curve; 5] = [
        ("in bit/s", |point| point.received as u64, |value| Cell::Number(value as f64)),
        ("out bit/s", |point| point.sent as u64, |value| Cell::Number(value as f64)),
        ("rtt", |point| point.rtt_us, Cell::Time),
        ("cwnd", |point| point.cwnd_segments, |value| Cell::Number(value as f64)),
        ("sent again", |point| point.retransmitted, |value| Cell::Number(value as f64)),
    ];
    let parts = [Constraint::Length(2)].into_iter().chain([Constraint::Length(2); 5]).chain([Constraint::Min(0)]);
    let [head, graphs @ .., words] = Layout::vertical(parts).areas::<7>(area);
    frame.render_widget(Paragraph::new(title), head);
    for (area, (name, value, cell)) in graphs.into_iter().zip(lines) {
        let [label, graph] = Layout::horizontal([Constraint::Length(18), Constraint::Min(0)]).areas(area);
        let newest = model.history.of(id).rev().map(value).take(usize::from(graph.width));
        let mut values: Vec<u64> = newest.collect();
        values.reverse();
        let text = |value: Option<&u64>| value.map_or_else(|| "-".to_owned(), |value| cell(*value).text());
        let label_lines = [format!("{name} {}", text(values.last())), format!("  most {}", text(values.iter().max()))];
        frame.render_widget(Paragraph::new(label_lines.map(Line::raw).to_vec()), label);
        frame.render_widget(Sparkline::default().data(&values), graph);
    }
    frame.render_widget(Clear, words);
    let told =
        if is_counted(record) { info_words(record).join(" ") } else { "The stack has no values of TCP for it.".to_owned() };
    frame.render_widget(Paragraph::new(told).wrap(Wrap { trim: true }), words);
}
