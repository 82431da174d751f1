use super::*;

fn page() -> Vec<Block> {
    vec![
        Block::Heading { level: 2, text: "A <b> & `c`".into(), anchor: "a".into() },
        Block::Table { head: vec!["n".into()], rows: vec![vec!["1|2".into()], vec!["<x>".into()]] },
        Block::Cards(vec![Card {
            title: "Bulk".into(),
            anchor: "bulk".into(),
            value: "1.10 ×".into(),
            range: "<1 to 2".into(),
            sentence: "More is better.".into(),
        }]),
        Block::Details { summary: "4 rows".into(), inside: vec![Block::Text("inside".into())] },
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
        "<a class=\"card\" href=\"#bulk\">Bulk<b>1.10 ×</b><i>&lt;1 to 2</i><p>More is better.</p></a>",
        "<details>\n<summary>4 rows</summary>\n<p>inside</p>\n</details>",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("http"), "the page loads something");
}

#[test]
fn markdown_escapes_bars_and_links_pictures() {
    let expected = "## A <b> & `c`\n\n| n |\n|---|\n| 1\\|2 |\n| <x> |\n\n| question | beside the kernel | range | meaning |\n|---|---|---|---|\n| Bulk | 1.10 × | <1 to 2 | More is better. |\n\n<details>\n<summary>4 rows</summary>\n\ninside\n\n</details>\n\n![f](figures/f.svg)\n\nbeside\n\n";
    assert_eq!(markdown("figures", &page()), expected);
}
