//! What the screen shows, and what keys change. Does not do: draw, or read files.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::history::History;
use super::sample::{Sample, Socket};
use super::sheet::{Order, Sheet};
use super::sheets::{self, Rates};
use crate::services::Choice;
use crate::ss::Filter;

/// The tables, each with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Workers,
    Programs,
    Connections,
    Drops,
}

impl View {
    pub(super) const ALL: [(View, &'static str); 4] =
        [(View::Workers, "workers"), (View::Programs, "programs"), (View::Connections, "connections"), (View::Drops, "drops")];
}

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Draw again.
    Draw,
    /// Read the files again now.
    Read,
    /// Let the shell go on.
    Stop,
    Quit,
}

/// What is drawn over the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    None,
    Help,
    /// A filter that is being typed.
    Typing(String),
    /// The connection of this name.
    Connection(String),
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) view: View,
    pub(super) overlay: Overlay,
    pub(super) delay: Duration,
    pub(super) paused: bool,
    /// The filter as it was typed.
    pub(super) words: String,
    /// Only this program's connections.
    pub(super) program: Option<String>,
    /// What went wrong last.
    pub(super) message: Option<String>,
    /// What is wrong where no service runs.
    pub(super) nothing: String,
    pub(super) history: History,
    filter: Filter,
    orders: [Order; 4],
    selected: Option<String>,
    samples: Option<(Sample, Sample)>,
}

/// Shortest and longest time between two readings that keys choose.
const DELAYS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

impl Model {
    /// Shows connections that these words describe.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub(super) fn new(words: &[String], delay: Duration) -> Result<Model, String> {
        Ok(Model {
            view: View::Workers,
            overlay: Overlay::None,
            delay,
            paused: false,
            words: words.join(" "),
            program: None,
            message: None,
            nothing: Choice::default().nothing().to_string(),
            history: History::default(),
            filter: Filter::of_words(words)?,
            orders: [(0, false), (5, true), (5, true), (1, true)].map(|(column, descending)| Order { column, descending }),
            selected: None,
            samples: None,
        })
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Takes a reading in.
    pub(super) fn add(&mut self, sample: Sample) {
        self.message = sample.is_empty().then(|| self.nothing.clone());
        // The first reading has none before it: its rates are zero.
        let before = self.samples.take().map_or_else(|| sample.clone(), |(_, latest)| latest);
        self.history.add(sheets::points(&before, &sample));
        self.samples = Some((before, sample));
    }

    pub(super) fn latest(&self) -> Option<&Sample> {
        self.samples.as_ref().map(|(_, latest)| latest)
    }

    /// What is shown, its tables in order.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (before, now) = self.samples.as_ref()?;
        let mut rates = Rates::between(before, now, &self.filter);
        if let Some(program) = &self.program {
            rates.connections.rows.retain(|row| row.cells[0].text() == *program);
        }
        for (view, order) in View::ALL.iter().zip(self.orders) {
            table_of(&mut rates, view.0).sort(order);
        }
        Some(rates)
    }

    pub(super) fn order(&self) -> Order {
        self.orders[self.view as usize]
    }

    /// The selected row of this table: the first if it was never chosen or has gone.
    pub(super) fn selected(&self, sheet: &Sheet) -> usize {
        let wanted = self.selected.as_deref();
        sheet.rows.iter().position(|row| Some(row.id.as_str()) == wanted).unwrap_or(0)
    }

    /// The connection of this name, if it is still there.
    pub(super) fn socket(&self, id: &str) -> Option<&Socket> {
        self.latest()?.sockets.get(id)
    }

    /// Does what a key means.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, control) {
            (KeyCode::Char('c'), true) => return Action::Quit,
            (KeyCode::Char('z'), true) => return Action::Stop,
            _ => {}
        }
        match &self.overlay {
            Overlay::Typing(_) => self.typed(key.code),
            Overlay::Help => self.close(),
            Overlay::Connection(_) if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace) => self.close(),
            _ => self.command(key.code),
        }
    }

    fn close(&mut self) -> Action {
        self.overlay = Overlay::None;
        Action::Draw
    }

    /// A key while a filter is typed.
    fn typed(&mut self, code: KeyCode) -> Action {
        let Overlay::Typing(text) = &mut self.overlay else { return Action::Draw };
        match code {
            KeyCode::Esc => return self.close(),
            KeyCode::Enter => {
                let words = std::mem::take(text);
                match Filter::of_words(std::slice::from_ref(&words)) {
                    Ok(filter) => {
                        (self.filter, self.words, self.message, self.view) = (filter, words, None, View::Connections);
                    }
                    Err(error) => self.message = Some(error),
                }
                return self.close();
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(letter) => text.push(letter),
            _ => {}
        }
        Action::Draw
    }

    fn command(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char(' ') => return Action::Read,
            KeyCode::Char('?' | 'h') => self.overlay = Overlay::Help,
            KeyCode::Char('/') => self.overlay = Overlay::Typing(self.words.clone()),
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.delay = (self.delay * 2).min(DELAYS[1]),
            KeyCode::Char('-') => self.delay = (self.delay / 2).max(DELAYS[0]),
            KeyCode::Char('s') => self.next_order(1),
            KeyCode::Char('S') => self.next_order(-1),
            KeyCode::Char('r') => self.orders[self.view as usize].descending ^= true,
            KeyCode::Char(digit @ '1'..='4') => self.go(View::ALL[digit as usize - '1' as usize].0),
            KeyCode::Tab => self.go(View::ALL[(self.view as usize + 1) % 4].0),
            KeyCode::BackTab => self.go(View::ALL[(self.view as usize + 3) % 4].0),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-20),
            KeyCode::PageDown => self.step(20),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter => self.enter(),
            KeyCode::Esc => {
                (self.program, self.words, self.message) = (None, String::new(), None);
                self.filter = Filter::of_words(&[]).expect("no words are a filter");
            }
            _ => {}
        }
        Action::Draw
    }

    fn go(&mut self, view: View) {
        (self.view, self.overlay) = (view, Overlay::None);
    }

    /// Sorts by a column to the right or left.
    fn next_order(&mut self, by: isize) {
        let columns = self.rates().map_or(1, |mut rates| table_of(&mut rates, self.view).columns.len());
        let order = &mut self.orders[self.view as usize];
        order.column = (order.column as isize + by).rem_euclid(columns as isize) as usize;
    }

    /// Moves the selection by rows.
    fn step(&mut self, by: isize) {
        let Some(mut rates) = self.rates() else { return };
        let sheet = table_of(&mut rates, self.view);
        let last = sheet.rows.len().saturating_sub(1);
        let at = (self.selected(sheet) as isize).saturating_add(by).clamp(0, last as isize);
        self.selected = sheet.rows.get(at as usize).map(|row| row.id.clone());
    }

    /// Goes from a program to its connections, and from a connection to its history.
    fn enter(&mut self) {
        let Some(mut rates) = self.rates() else { return };
        let sheet = table_of(&mut rates, self.view);
        let Some(row) = sheet.rows.get(self.selected(sheet)) else { return };
        match self.view {
            View::Programs => (self.program, self.view) = (Some(row.cells[0].text()), View::Connections),
            View::Connections => self.overlay = Overlay::Connection(row.id.clone()),
            View::Workers | View::Drops => {}
        }
    }
}

/// The table of a view.
pub(super) fn table_of(rates: &mut Rates, view: View) -> &mut Sheet {
    match view {
        View::Workers => &mut rates.workers,
        View::Programs => &mut rates.programs,
        View::Connections => &mut rates.connections,
        View::Drops => &mut rates.drops,
    }
}
