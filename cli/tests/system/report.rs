//! The report as a browser shows it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::harness::{Net, RINGWAY};

/// Debian's chromium-headless-shell.
const BROWSER: &str = "chromium-headless-shell";

/// Writes into the page's title what is wrong with it: texts of a figure that lie over each other or outside of it, a page wider than the
/// window, cards below the first screen; and what there is.
const LOOK: &str = r#"<script>
const box = e => e.getBoundingClientRect();
const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
const found = [];
const pictures = [...document.querySelectorAll("svg")];
for (const svg of pictures) {
  const texts = [...svg.querySelectorAll("text")], frame = box(svg);
  texts.forEach((text, at) => {
    const own = box(text);
    if (own.left < frame.left - 1 || own.right > frame.right + 1 || own.top < frame.top - 1 || own.bottom > frame.bottom + 1)
      found.push("outside: " + text.textContent.trim());
    for (const other of texts.slice(at + 1))
      if (meets(own, box(other))) found.push("over each other: " + text.textContent.trim() + " and " + other.textContent.trim());
  });
}
const cards = [...document.querySelectorAll(".card")];
if (cards.some(card => box(card).bottom > 800)) found.push("a card is below the first screen");
if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");
if (document.querySelectorAll("details[open]").length) found.push("a table is open");
document.title = pictures.length + " figures, " + cards.length + " cards; " + (found.join("; ") || "nothing is wrong");
</script>"#;

/// A row as `ringway bench --json` prints it.
fn row(scenario: &str, point: &str, parameter: (&str, f64), target: &str, value: f64) -> String {
    let unit = match scenario {
        "bulk" => "Gbit/s",
        "latency" => "us",
        "idle" => "wakeups/s",
        "crr" => "connections/s",
        _ => "requests/s",
    };
    let noise = if target == "service" { "noisy: steal 4 %" } else { "quiet" };
    let ratio = if target == "linux" { 1.0 } else { 1.3 };
    let values = format!("[{}, {value}, {}]", value * 0.93, value * 1.04);
    let (name, amount) = parameter;
    format!(
        r#"{{"scenario":"{scenario}","point":"{point}","parameters":{{"{name}":{amount}}},"target":"{target}","wire":"veth","client":"kernel","value":{value},"values":{values},"unit":"{unit}","p50_us":{value},"p99_us":{},"server_cpu_us_per_request":2.5,"client_cpu_us_per_request":null,"cycles_per_request":null,"cycles_per_byte":null,"throughput_per_core":null,"retransmissions":0,"ratio":{ratio},"noise":"{noise}","machine":"a machine","kernel":"6.1","commit":"abc"}}"#,
        value * 3.0
    )
}

fn rows() -> String {
    let mut lines = Vec::new();
    for (factor, target) in [(1.0, "linux"), (1.2, "linux-uring"), (1.3, "preload"), (1.5, "service"), (1.8, "embedded")] {
        for size in [131_072.0, 2_097_152.0, 0.0] {
            lines.push(row("bulk", "replies", ("size", size), target, 14.0 * factor));
        }
        for size in [64.0, 1024.0, 65_536.0] {
            lines.push(row("latency", "one", ("size", size), target, 60.0 / factor));
            lines.push(row("crr", "short", ("size", size), target, 30_000.0 * factor));
        }
        for connections in [1.0, 64.0, 1_024.0, 100_000.0] {
            lines.push(row("conns", "many", ("connections", connections), target, 1_234.0 * factor * connections.sqrt()));
            lines.push(row("idle", "none", ("connections", connections), target, 0.0));
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_browser_shows_all_figures_with_every_word_in_its_place() {
    let net = Net::new();
    if std::env::var_os("PATH").is_none_or(|path| !std::env::split_paths(&path).any(|folder| folder.join(BROWSER).exists())) {
        eprintln!("skipped: {BROWSER} is not here; `.ci/setup` installs it");
        return;
    }
    let (rows, out) = (net.file("rows.jsonl", rows()), net.path("report"));
    let out = out.to_str().expect("a path of ours");
    let told = net.spawn_here(&[RINGWAY, "report", &rows, "-o", out]).finish(Duration::from_secs(60)).success();
    assert!(told.stderr.contains("figures: "), "{}", told.stderr);
    let page = fs::read_to_string(Path::new(out).join("report.html")).expect("it was written");
    let looked = net.file("looked.html", page.replace("</body>", &format!("{LOOK}</body>")));
    let browser = [BROWSER, "--no-sandbox", "--headless", "--disable-gpu", "--window-size=1280,800", "--dump-dom"];
    let shown =
        net.spawn_here(&[&browser[..], &[&format!("file://{looked}")]].concat()).finish(Duration::from_secs(120)).success();
    let title = shown.stdout.lines().find_map(|line| line.split_once("<title>")?.1.split_once("</title>")).expect("a title").0;
    let figures = page.matches("<svg").count();
    assert!(figures >= 6, "{figures}");
    assert_eq!(title, format!("{figures} figures, 5 cards; nothing is wrong"));
    for words in
        ["Unmodified programs: 1.30 times the kernel's throughput", "in the paper, on its machine", "hollow: noisy", "64 KiB"]
    {
        assert!(page.contains(words), "{words}");
    }
}

/// Rows, what they were measured on, and a comparison that fails when something is worse.
#[test]
fn a_bundle_is_compared_with_later_rows() {
    let net = Net::new();
    let before = net.file("before.jsonl", rows());
    let after = net.file(
        "after.jsonl",
        rows()
            .replace("\"values\":[", "\"values\":[1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,")
            .replace("\"value\":14,", "\"value\":7,"),
    );
    let bundle = net.path("bundle.tar.gz");
    let bundle = bundle.to_str().expect("a path of ours");
    let run = |words: &[&str]| net.spawn_here(&[&[RINGWAY, "bench"], words].concat()).finish(Duration::from_secs(60));
    run(&["pack", &before, "-o", bundle]).success();
    let names = net.spawn_here(&["tar", "-tzf", bundle]).finish(Duration::from_secs(10)).success().stdout;
    for name in ["./README", "./machine.txt", "./report.html", "./rows.jsonl"] {
        assert!(names.lines().any(|line| line == name), "{name} is not in {names}");
    }
    let same = run(&["compare", bundle, &before, "--worse-than", "1"]).success();
    assert!(same.stdout.contains(" 0 better, 0 worse, "), "{}", same.stdout);
    let worse = run(&["compare", bundle, &after, "--worse-than", "5"]);
    assert!(worse.code() == 1 && worse.stderr.contains("worse: bulk, replies on linux over veth"), "{}", worse.stderr);
}
