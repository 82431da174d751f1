//! The texts and tables around the figures.

use std::collections::BTreeSet;

use super::finding::{self, Comparison};
use super::number;
use super::page::Block;
use super::papers::{Figure, Headline, Paper, Papers};
use super::reading::Rows;
use super::series::{self, Plot};
use crate::row::Row;

/// The machine, and how to read the rest.
pub(super) fn opening(rows: &Rows) -> Vec<Block> {
    let all = &rows.rows;
    let mut facts = vec![
        format!("Machine: {}.", several(all, |row| &row.machine)),
        format!("Kernel: {}.", several(all, |row| &row.kernel)),
        format!("Commit: {}.", several(all, |row| &row.commit)),
        format!(
            "{} rows, {} of them noisy, {} without a value.",
            all.len(),
            noisy(all.iter()),
            all.iter().filter(|row| !row.is_measured()).count()
        ),
    ];
    if rows.replaced > 0 {
        facts.push(format!("{} rows were measured again later in the same files; the last measurement counts.", rows.replaced));
    }
    facts.push(
        "The papers' numbers come from other machines and networks: compare the order of the stacks and the shapes of the \
         curves, not absolute values. Only numbers in the papers' text are shown."
            .to_string(),
    );
    vec![Block::List(facts)]
}

/// The first screen: five figures, each with its range and a sentence.
pub(super) fn headlines(papers: &Papers, rows: &[Row]) -> Block {
    let card = |headline: &Headline| {
        let figure =
            papers.figures.iter().find(|figure| figure.id == headline.figure).expect("a test looks up every headline's figure");
        finding::card(headline, figure, &series::plots(figure, rows))
    };
    Block::Cards(papers.headlines.iter().map(card).collect())
}

/// The ratios of all rows that have one.
pub(super) fn ratios(papers: &Papers, all: &[Row]) -> Vec<Block> {
    let known: BTreeSet<&str> = papers.figures.iter().map(|figure| figure.scenario.as_str()).collect();
    let compared: Vec<&Row> = all
        .iter()
        .filter(|row| row.is_measured() && row.ratio.is_some() && row.target != "linux" && known.contains(row.scenario.as_str()))
        .collect();
    if compared.is_empty() {
        return Vec::new();
    }
    let meaning = "Ratio: this target's value divided by that of `linux` in the same interleaved run (median over rounds). \
                   CPU ratio: the same for the server's CPU time per request, when both were measured.";
    let head = ["scenario", "point", "target", "wire", "client", "value", "unit", "ratio", "CPU ratio", "noise"];
    let lines = compared.iter().map(|row| ratio_line(row, all)).collect();
    let inside = vec![Block::Text(meaning.to_string()), Block::Table { head: head.map(str::to_string).to_vec(), rows: lines }];
    let summary = format!("All {} values beside the kernel's", compared.len());
    vec![heading(2, "Compared with the kernel", "ratios"), Block::Details { summary, inside }]
}

fn ratio_line(row: &Row, all: &[Row]) -> Vec<String> {
    let same = |other: &&Row| {
        (&other.scenario, &other.point, &other.wire, &other.client) == (&row.scenario, &row.point, &row.wire, &row.client)
            && other.target == "linux"
    };
    let kernel = all.iter().find(same).and_then(|other| other.server_cpu_us_per_request);
    let cpu = match (row.server_cpu_ratio, row.server_cpu_us_per_request, kernel) {
        (Some(ratio), _, _) => format!("{ratio:.2}"),
        (None, Some(ours), Some(kernel)) if kernel > 0.0 => format!("{:.2}", ours / kernel),
        _ => "–".to_string(),
    };
    vec![
        row.scenario.clone(),
        row.point.clone(),
        row.target.clone(),
        row.wire.clone(),
        row.client.clone(),
        number::value(row.value),
        number::unit(&row.unit),
        row.ratio.map_or("–".to_string(), |ratio| format!("{ratio:.2}")),
        cpu,
        row.noise.clone(),
    ]
}

/// A plot with the paper's numbers beside it and the rows below; its heading says what it shows. `is_only`: the figure has no other wire.
pub(super) fn figure(paper: &Paper, figure: &Figure, plot: &Plot, svg: String, (rows, is_only): (&[Row], bool)) -> Vec<Block> {
    let mut beside = vec![Block::Text(reproduces(paper, figure))];
    if figure.numbers.is_empty() {
        beside.extend(figure.is_of_a_paper().then(|| Block::Text("The paper's text has no number for it.".to_string())));
    } else {
        let head = ["in the paper", "value", "unit", "source"].map(str::to_string).to_vec();
        let line = |number: &super::papers::Number| {
            vec![number.what.clone(), number.value.clone(), number.unit.clone(), number.section.clone()]
        };
        beside.push(Block::Table { head, rows: figure.numbers.iter().map(line).collect() });
        beside.push(Block::Text(format!("The paper's machine: {}.", paper.machine)));
    }
    let id = if is_only { figure.id.clone() } else { anchor(&[&figure.id, &plot.wire, &plot.part]) };
    let title = Comparison::of(figure, plot).map_or_else(|| figure.title.clone(), |found| found.title());
    let part = if plot.part.is_empty() { String::new() } else { format!(": {}", plot.part) };
    let question = if is_only { format!("{}.", figure.title) } else { format!("{}, over {}{part}.", figure.title, plot.wire) };
    let mut blocks = vec![heading(2, &title, &id), Block::Text(question), Block::Picture { id, svg, beside }];
    if !plot.has_rows {
        return blocks;
    }
    let mine: Vec<&Row> = rows.iter().filter(|row| series::is_of(figure, row) && row.wire == plot.wire).collect();
    let mut inside = Vec::new();
    if !plot.remarks.is_empty() {
        inside.push(Block::List(plot.remarks.clone()));
    }
    inside.push(table(&mine));
    let summary = format!("{} rows, {} of them noisy", mine.len(), noisy(mine.iter().copied()));
    blocks.push(Block::Details { summary, inside });
    blocks
}

/// The parts as one name of a file and an anchor.
fn anchor(parts: &[&str]) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let words =
        parts.iter().filter(|part| !part.is_empty()).map(|part| part.replace(", ", "-").chars().map(letter).collect::<String>());
    words.collect::<Vec<_>>().join("-")
}

fn reproduces(paper: &Paper, figure: &Figure) -> String {
    let command = figure.scenario.as_str();
    if figure.is_of_a_paper() {
        format!("Reproduces {} of “{}” (`ringway bench {command}`).", figure.figure, paper.title)
    } else {
        format!("`ringway bench {command}`; {}.", paper.title)
    }
}

/// Rows of scenarios that no figure draws.
pub(super) fn without_figure(papers: &Papers, rows: &[Row]) -> Vec<Block> {
    let known: BTreeSet<&str> = papers.figures.iter().map(|figure| figure.scenario.as_str()).collect();
    let left: Vec<&Row> = rows.iter().filter(|row| !known.contains(row.scenario.as_str())).collect();
    if left.is_empty() {
        return Vec::new();
    }
    let summary = format!("{} rows", left.len());
    vec![heading(2, "Rows without a figure", "others"), Block::Details { summary, inside: vec![table(&left)] }]
}

/// Figures without rows, and the commands to measure them.
pub(super) fn without_rows(papers: &Papers, figures: &[&Figure], rows: &[Row]) -> Vec<Block> {
    if figures.is_empty() {
        return Vec::new();
    }
    let item = |figure: &&Figure| {
        let from = if figure.is_of_a_paper() {
            format!("{} of “{}”", figure.figure, papers.of(figure).title)
        } else {
            "own".to_string()
        };
        format!("{} ({from}): no rows with a value; run `ringway bench {} --json`.", figure.title, figure.scenario)
    };
    let mut blocks = vec![heading(2, "Not measured", "missing"), Block::List(figures.iter().map(item).collect())];
    let tried = |row: &&Row| !row.is_measured() && figures.iter().any(|figure| figure.scenario == row.scenario);
    let tried: Vec<&Row> = rows.iter().filter(tried).collect();
    blocks.extend((!tried.is_empty()).then(|| table(&tried)));
    blocks
}

/// A table of all measured values, in the rows' units.
fn table(rows: &[&Row]) -> Block {
    let head = [
        "point",
        "target",
        "wire",
        "client",
        "value",
        "unit",
        "p50 µs",
        "p99 µs",
        "server CPU µs/req",
        "client CPU µs/req",
        "cycles/req",
        "cycles/byte",
        "per core",
        "resent",
        "dropped",
        "ratio",
        "noise",
    ];
    let option = |value: Option<f64>| value.map_or("–".to_string(), number::value);
    let count = |value: Option<u64>| value.map_or("–".to_string(), |count| count.to_string());
    let line = |row: &&Row| {
        vec![
            row.point.clone(),
            row.target.clone(),
            row.wire.clone(),
            row.client.clone(),
            if row.is_measured() { number::value(row.value) } else { row.note.clone() },
            number::unit(&row.unit),
            option(row.p50_us),
            option(row.p99_us),
            option(row.server_cpu_us_per_request),
            option(row.client_cpu_us_per_request),
            option(row.cycles_per_request),
            option(row.cycles_per_byte),
            option(row.throughput_per_core),
            count(row.retransmissions),
            count(row.drops),
            row.ratio.map_or("–".to_string(), |ratio| format!("{ratio:.2}")),
            row.noise.clone(),
        ]
    };
    Block::Table { head: head.map(str::to_string).to_vec(), rows: rows.iter().map(line).collect() }
}

pub(super) fn heading(level: usize, text: &str, anchor: &str) -> Block {
    Block::Heading { level, text: text.to_string(), anchor: anchor.to_string() }
}

fn noisy<'r>(rows: impl Iterator<Item = &'r Row>) -> usize {
    rows.filter(|row| !row.is_quiet()).count()
}

/// The different values of a field, joined.
fn several(rows: &[Row], field: fn(&Row) -> &String) -> String {
    let found: BTreeSet<&str> = rows.iter().map(|row| field(row).as_str()).filter(|text| !text.is_empty()).collect();
    if found.is_empty() { "unknown".to_string() } else { found.into_iter().collect::<Vec<_>>().join("; ") }
}
