//! `ringway report`: writes the rows of any number of runs as one page. Five figures stand on the first screen, then one for each
//! question, with what it shows as its heading.
//!
//! Promises: `report.html` loads nothing from elsewhere; `report.md` has the same content; figures without
//! rows, points without values and noisy rows are listed. Does not do: measuring, or hiding a row.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

mod chart;
mod finding;
mod number;
mod page;
mod papers;
pub(crate) mod reading;
mod series;
mod words;

use page::Block;
use papers::Papers;
use reading::Rows;

/// Arguments of `ringway report`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Files with the output of `ringway bench --json`; `-` is standard input
    #[arg(required = true, value_name = "ROWS.jsonl")]
    rows: Vec<PathBuf>,
    /// Output folder for report.html, report.md and figures/
    #[arg(short, long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Write only report.md, with its figures beside it
    #[arg(long)]
    markdown: bool,
}

/// Output of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// report.html, report.md, and the figures in a folder.
    Page,
    /// report.md with the figures beside it.
    Markdown,
}

/// Writes the report.
pub fn run(arguments: &Arguments) -> ExitCode {
    let form = if arguments.markdown { Form::Markdown } else { Form::Page };
    match write(&arguments.rows, &arguments.out, form) {
        Ok(told) => {
            eprintln!("ringway report: {told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ringway report: {error}");
            ExitCode::FAILURE
        }
    }
}

const TITLE: &str = "Ringway compared with the kernel";
const FIGURES: &str = "figures";

/// Writes the report of these files into a folder; returns a summary.
pub(crate) fn write(files: &[PathBuf], out: &Path, form: Form) -> Result<String, Box<dyn std::error::Error>> {
    let mut rows = Rows::default();
    for file in files {
        rows.read(file)?;
    }
    if rows.rows.is_empty() {
        return Err("the files have no rows".into());
    }
    let blocks = blocks(&Papers::load(), &rows)?;
    let (figures, folder) = match form {
        Form::Page => (FIGURES, out.join(FIGURES)),
        Form::Markdown => (".", out.to_path_buf()),
    };
    fs::create_dir_all(&folder).map_err(|error| named(&folder, &error))?;
    for block in &blocks {
        if let Block::Picture { id, svg, .. } = block {
            put(&folder.join(format!("{id}.svg")), svg)?;
        }
    }
    if form == Form::Page {
        put(&out.join("report.html"), &page::html(TITLE, &blocks))?;
    }
    put(&out.join("report.md"), &page::markdown(figures, &blocks))?;
    let count = blocks.iter().filter(|block| matches!(block, Block::Picture { .. })).count();
    let main = if form == Form::Page { "report.html" } else { "report.md" };
    Ok(format!("{} rows, {count} figures: {}", rows.rows.len(), out.join(main).display()))
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The whole page.
fn blocks(papers: &Papers, rows: &Rows) -> Result<Vec<Block>, Box<dyn std::error::Error>> {
    let mut blocks = vec![words::heading(1, TITLE, "top"), words::headlines(papers, &rows.rows)];
    blocks.extend(words::opening(rows));
    let mut undrawn = Vec::new();
    for figure in &papers.figures {
        let plots = series::plots(figure, &rows.rows);
        if plots.is_empty() {
            undrawn.push(figure);
        }
        for plot in &plots {
            let svg = chart::draw(plot, figure.shape, &figure.x)?;
            blocks.extend(words::figure(papers.of(figure), figure, plot, svg, (&rows.rows, plots.len() == 1)));
        }
    }
    blocks.extend(words::ratios(papers, &rows.rows));
    blocks.extend(words::without_figure(papers, &rows.rows));
    blocks.extend(words::without_rows(papers, &undrawn, &rows.rows));
    Ok(blocks)
}

#[cfg(test)]
mod tests;
