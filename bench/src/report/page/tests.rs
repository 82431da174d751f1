use super::*;

fn page() -> Vec<Block> {
    vec![
        Block::Heading { level: 2, text: "A <b> & `c`".into(), anchor: "a".into() },
        Block::Table { head: vec!["n".into()], rows: vec![vec!["1|2".into()], vec!["<x>".into()]] },
        Block::Picture { id: "f".into(), svg: "<svg/>".into(), beside: vec![Block::Text("beside".into())] },
    ]
}

#[test]
fn html_escapes_text_and_keeps_pictures() {
    let html = html("T & U", &page());
    for part in [
        "<title>T &amp; U</title>",
        "<h2 id=\"a\">A &lt;b&gt; &amp; <code>c</code></h2>",
        "<td class=\"n\">1|2</td>",
        "<td>&lt;x&gt;</td>",
        "<svg/>",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("http"), "the page loads something");
}

#[test]
fn markdown_escapes_bars_and_links_pictures() {
    let expected = "## A <b> & `c`\n\n| n |\n|---|\n| 1\\|2 |\n| <x> |\n\n![f](figures/f.svg)\n\nbeside\n\n";
    assert_eq!(markdown("figures", &page()), expected);
}
