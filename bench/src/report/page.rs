//! A page of headings, texts, tables and figures, written as HTML and as Markdown.
//!
//! Promises: the HTML is one file that loads nothing; all text is escaped; words in backticks are
//! code in both. Does not do: choose the text.

use super::finding::Card;

/// A block of the page.
#[derive(Debug)]
pub(super) enum Block {
    /// Level from 1 to 3, text and anchor.
    Heading {
        level: usize,
        text: String,
        anchor: String,
    },
    Text(String),
    List(Vec<String>),
    Table {
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    /// Blocks that a reader opens.
    Details {
        summary: String,
        inside: Vec<Block>,
    },
    Cards(Vec<Card>),
    /// An SVG picture and the blocks beside it.
    Picture {
        id: String,
        svg: String,
        beside: Vec<Block>,
    },
}

const STYLE: &str = "body{font:15px/1.45 sans-serif;color:#222;max-width:1240px;margin:24px auto;padding:0 16px}\
h1{font-size:26px}h2{font-size:20px;margin-top:40px;border-top:1px solid #ccc;padding-top:16px}h3{font-size:16px}\
table{border-collapse:collapse;margin:10px 0;font-size:13px}td,th{border:1px solid #ccc;padding:3px 8px;text-align:left;vertical-align:top}\
th{background:#f2f2f2}td.n{text-align:right;font-variant-numeric:tabular-nums}code{background:#f2f2f2;padding:0 3px}\
.pair{display:flex;flex-wrap:wrap;gap:20px;align-items:flex-start}.pair svg{max-width:100%;height:auto}\
.beside{flex:1 1 280px;min-width:260px}li{margin:2px 0}.cards{display:flex;flex-wrap:wrap;gap:14px}\
.card{flex:1 1 200px;border:1px solid #ccc;border-radius:6px;padding:10px 14px;color:inherit;text-decoration:none}\
.card b{display:block;font-size:30px;font-variant-numeric:tabular-nums}.card i{font-style:normal;color:#555;font-size:13px}\
.card p{margin:6px 0 0;font-size:13px}details{margin:10px 0}summary{cursor:pointer;color:#0072b2}.wide{overflow-x:auto}";

/// Formats the page as one HTML file.
pub(super) fn html(title: &str, blocks: &[Block]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escaped(title)
    );
    for block in blocks {
        html_block(block, &mut out);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn html_block(block: &Block, out: &mut String) {
    match block {
        Block::Heading { level, text, anchor } => {
            out.push_str(&format!("<h{level} id=\"{}\">{}</h{level}>\n", escaped(anchor), inline(text)));
        }
        Block::Text(text) => out.push_str(&format!("<p>{}</p>\n", inline(text))),
        Block::List(items) => {
            out.push_str("<ul>\n");
            items.iter().for_each(|item| out.push_str(&format!("<li>{}</li>\n", inline(item))));
            out.push_str("</ul>\n");
        }
        Block::Table { head, rows } => {
            let cells: String = head.iter().map(|cell| format!("<th>{}</th>", inline(cell))).collect();
            out.push_str(&format!("<div class=\"wide\"><table>\n<tr>{cells}</tr>\n"));
            for row in rows {
                let cells: String = row.iter().map(|cell| html_cell(cell)).collect();
                out.push_str(&format!("<tr>{cells}</tr>\n"));
            }
            out.push_str("</table></div>\n");
        }
        Block::Details { summary, inside } => {
            out.push_str(&format!("<details>\n<summary>{}</summary>\n", inline(summary)));
            inside.iter().for_each(|block| html_block(block, out));
            out.push_str("</details>\n");
        }
        Block::Cards(cards) => {
            out.push_str("<div class=\"cards\">\n");
            cards.iter().for_each(|card| out.push_str(&html_card(card)));
            out.push_str("</div>\n");
        }
        Block::Picture { svg, beside, .. } => {
            out.push_str("<div class=\"pair\">\n<div>");
            out.push_str(svg);
            out.push_str("</div>\n<div class=\"beside\">\n");
            beside.iter().for_each(|block| html_block(block, out));
            out.push_str("</div>\n</div>\n");
        }
    }
}

fn html_card(card: &Card) -> String {
    let [title, value, range, sentence] = [&card.title, &card.value, &card.range, &card.sentence].map(|text| inline(text));
    let anchor = escaped(&card.anchor);
    format!("<a class=\"card\" href=\"#{anchor}\">{title}<b>{value}</b><i>{range}</i><p>{sentence}</p></a>\n")
}

/// Formats a cell; one that begins with a digit is right-aligned.
fn html_cell(cell: &str) -> String {
    let class = if cell.starts_with(|letter: char| letter.is_ascii_digit()) { " class=\"n\"" } else { "" };
    format!("<td{class}>{}</td>", inline(cell))
}

/// Formats the page as Markdown; pictures are files in `folder`, named by their id.
pub(super) fn markdown(folder: &str, blocks: &[Block]) -> String {
    let mut out = String::new();
    blocks.iter().for_each(|block| markdown_block(folder, block, &mut out));
    out
}

fn markdown_block(folder: &str, block: &Block, out: &mut String) {
    match block {
        Block::Heading { level, text, .. } => out.push_str(&format!("{} {text}\n\n", "#".repeat(*level))),
        Block::Text(text) => out.push_str(&format!("{text}\n\n")),
        Block::List(items) => {
            items.iter().for_each(|item| out.push_str(&format!("- {item}\n")));
            out.push('\n');
        }
        Block::Table { head, rows } => {
            let line = |cells: &[String]| {
                let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
                format!("| {} |\n", cells.join(" | "))
            };
            out.push_str(&line(head));
            out.push_str(&format!("|{}\n", "---|".repeat(head.len())));
            rows.iter().for_each(|row| out.push_str(&line(row)));
            out.push('\n');
        }
        Block::Details { summary, inside } => {
            out.push_str(&format!("<details>\n<summary>{summary}</summary>\n\n"));
            inside.iter().for_each(|block| markdown_block(folder, block, out));
            out.push_str("</details>\n\n");
        }
        Block::Cards(cards) => {
            let head = ["question", "beside the kernel", "range", "meaning"].map(str::to_string).to_vec();
            let line = |card: &Card| [&card.title, &card.value, &card.range, &card.sentence].map(String::clone).to_vec();
            markdown_block(folder, &Block::Table { head, rows: cards.iter().map(line).collect() }, out);
        }
        Block::Picture { id, beside, .. } => {
            out.push_str(&format!("![{id}]({folder}/{id}.svg)\n\n"));
            beside.iter().for_each(|block| markdown_block(folder, block, out));
        }
    }
}

/// Escapes a text and formats words in backticks as `code`.
fn inline(text: &str) -> String {
    let safe = escaped(text);
    let parts = safe.split('`');
    parts.enumerate().map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_string() }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
