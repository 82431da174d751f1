//! A table: columns, rows, an order; as text and as JSON.

use serde_json::{Map, Value};

use super::cell::Cell;

/// A column's head, and its name in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) key: &'static str,
}

/// A line and the name by which the selection finds it again.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) cells: Vec<Cell>,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
}

/// The order of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) descending: bool,
}

impl Sheet {
    /// Sorts the rows; those that are equal stand by their names.
    pub(super) fn sort(&mut self, order: Order) {
        self.rows.sort_by(|one, other| {
            let by_cell = one.cells[order.column].compare(&other.cells[order.column]);
            let by_cell = if order.descending { by_cell.reverse() } else { by_cell };
            by_cell.then_with(|| one.id.cmp(&other.id))
        });
    }

    /// Returns true for a column of texts: they stand at the left.
    pub(super) fn is_text(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.cells[column], Cell::Text(_)))
    }

    /// Widths of the columns, their heads included.
    pub(super) fn widths(&self) -> Vec<usize> {
        let of_cells = |index: usize| self.rows.iter().map(move |row| row.cells[index].text().chars().count());
        let widths = self.columns.iter().enumerate();
        widths.map(|(index, column)| of_cells(index).fold(column.title.chars().count(), usize::max)).collect()
    }

    /// Lines of text, the head first.
    pub(super) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let aligned = |text: &str, index: usize| {
            let width = widths[index];
            if self.is_text(index) { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        let line = |cells: Vec<String>| cells.join(" ").trim_end().to_owned();
        let head = self.columns.iter().enumerate().map(|(index, column)| aligned(column.title, index)).collect();
        let rows =
            self.rows.iter().map(|row| row.cells.iter().enumerate().map(|(index, cell)| aligned(&cell.text(), index)).collect());
        std::iter::once(head).chain(rows).map(line).collect()
    }

    /// An array of rows, each with the columns' names.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Row| -> Map<String, Value> {
            self.columns.iter().zip(&row.cells).map(|(column, cell)| (column.key.to_owned(), cell.json())).collect()
        };
        self.rows.iter().map(row).collect()
    }
}
