//! What a scraper gets, and that dashboard and alerts ask for nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use crate::harness::*;

/// The names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("ringway_") && word.len() > "ringway_".len()).map(str::to_owned).collect()
}

#[test]
fn a_scraper_gets_counters_interfaces_quotas_and_sockets() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let run = [RINGWAY, "run", "-q", "--name", &name, "--", "socat", "TCP-LISTEN:80,fork,reuseaddr", "EXEC:cat"];
    let mut server = net.spawn(Server, &run);
    net.wait_served(Server, 80, &mut server);
    let page = net.output(Server, &[RINGWAY, "metrics", "--name", &name]);
    assert!(page.ends_with("# EOF\n"), "{page}");
    let counters = net.output(Server, &[RINGWAY, "nstat", "-asz", "--name", &name]);
    for line in counters.lines().filter(|line| !line.starts_with('#')) {
        let short = line.split_whitespace().next().expect("a name").trim_start_matches("Ringway").to_owned();
        // Classes of histograms, which have names of their own.
        if ["Rtt", "TurnTime", "Batch"].iter().any(|prefix| short.starts_with(prefix)) {
            continue;
        }
        for kind in ["HELP", "TYPE"] {
            assert!(page.contains(&format!("# {kind} ringway_{short} ")), "{short} has no {kind}");
        }
    }
    for name in ["round_trip_seconds", "turn_seconds", "batch_packets"] {
        for (kind, least) in [("bucket", 8), ("sum", 1), ("count", 1)] {
            let lines = page.lines().filter(|line| line.starts_with(&format!("ringway_{name}_{kind}{{")));
            assert!(lines.count() >= least, "no {kind} of {name}: {page}");
        }
    }
    let listener =
        format!("ringway_sockets{{service=\"{name}\",program=\"socat\",protocol=\"tcp\",state=\"LISTEN\",path=\"stack\"}} 1");
    assert!(page.contains(&listener), "{page}");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let known = metrics_in(&page);
    for file in ["contrib/grafana.json", "contrib/alerts.yml"] {
        let text = std::fs::read_to_string(top.join(file)).expect("it is there");
        let asked = metrics_in(&text);
        assert!(asked.len() > 5, "{file}");
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
    // The same for each request, at a UNIX socket and at an address of the kernel's.
    let socket = text(&net.path("metrics.sock"));
    for (place, ask) in [
        (socket.as_str(), vec!["--unix-socket", &socket, "http://ringway/metrics"]),
        ("127.0.0.1:9481", vec!["http://127.0.0.1:9481/metrics"]),
    ] {
        let mut metrics = net.spawn(Server, &[RINGWAY, "metrics", "--listen", place]);
        metrics.wait_for_error_line("ringway metrics: ");
        for _ in 0..2 {
            let got = net.output(Server, &[&["curl", "-sSf"][..], &ask].concat());
            assert!(got.contains(&listener) && got.ends_with("# EOF\n"), "{got}");
        }
    }
}
