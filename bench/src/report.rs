//! `ringway bench report`: the rows of any number of runs as one page with a figure for each figure of the papers.
//!
//! Promises: `report.html` loads nothing from elsewhere; `report.md` says the same; figures without
//! rows, points without values and noisy rows are named. Does not do: measuring, or hiding a row.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

mod chart;
mod number;
mod page;
mod papers;
mod reading;
mod series;
mod words;

use page::Block;
use papers::Papers;
use reading::Rows;

/// Arguments of `ringway bench report`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Files of rows as `ringway bench --json` prints them; `-` is standard input
    #[arg(required = true, value_name = "ROWS.jsonl")]
    rows: Vec<PathBuf>,
    /// Folder for report.html, report.md and figures/
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
}

/// Writes the report.
pub fn run(arguments: &Arguments) -> ExitCode {
    match write(arguments) {
        Ok(told) => {
            eprintln!("ringway bench report: {told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ringway bench report: {error}");
            ExitCode::FAILURE
        }
    }
}

const TITLE: &str = "Ringway, measured beside the kernel";
const FIGURES: &str = "figures";

fn write(arguments: &Arguments) -> Result<String, Box<dyn std::error::Error>> {
    let mut rows = Rows::default();
    for file in &arguments.rows {
        rows.read(file)?;
    }
    if rows.rows.is_empty() {
        return Err("the files have no rows".into());
    }
    let blocks = blocks(&Papers::load(), &rows)?;
    let out = &arguments.out;
    fs::create_dir_all(out.join(FIGURES)).map_err(|error| named(out, &error))?;
    for block in &blocks {
        if let Block::Picture { id, svg, .. } = block {
            put(&out.join(FIGURES).join(format!("{id}.svg")), svg)?;
        }
    }
    put(&out.join("report.html"), &page::html(TITLE, &blocks))?;
    put(&out.join("report.md"), &page::markdown(FIGURES, &blocks))?;
    let figures = blocks.iter().filter(|block| matches!(block, Block::Picture { .. })).count();
    Ok(format!("{} rows, {figures} figures: {}", rows.rows.len(), out.join("report.html").display()))
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The whole page.
fn blocks(papers: &Papers, rows: &Rows) -> Result<Vec<Block>, Box<dyn std::error::Error>> {
    let mut blocks = words::opening(TITLE, papers, rows);
    let mut undrawn = Vec::new();
    for figure in &papers.figures {
        let Some(plot) = series::plot(figure, &rows.rows) else {
            undrawn.push(figure);
            continue;
        };
        let svg = chart::draw(&plot, figure.shape, &figure.x)?;
        blocks.extend(words::figure(papers.of(figure), figure, &plot, svg, &rows.rows));
    }
    blocks.extend(words::without_figure(papers, &rows.rows));
    blocks.extend(words::without_rows(papers, &undrawn, &rows.rows));
    Ok(blocks)
}

#[cfg(test)]
mod tests;
