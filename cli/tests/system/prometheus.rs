//! A real Prometheus scrapes `ringway metrics`, and finds data for each query of the dashboard and the alerts.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::*;

const METRICS: &str = "127.0.0.1:9481";
const PROMETHEUS: &str = "127.0.0.1:9490";

/// Echoes lines, over many short connections.
const CLIENT: &str = "import socket, sys
for _ in range(5):
    c = socket.create_connection((sys.argv[1], 80))
    c.sendall(b'line\\n')
    assert c.recv(10) == b'line\\n'
    c.close()";

/// What Prometheus answers to a request of its interface.
fn ask(net: &Net, path: &str, query: &str) -> Value {
    let url = format!("http://{PROMETHEUS}/api/v1/{path}");
    let mut command = vec!["curl", "-sS", "-G", &url];
    let query = format!("query={query}");
    if path == "query" {
        command.extend(["--data-urlencode", &query]);
    }
    let answer = net.run(Server, &command).stdout;
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

fn file_of_contrib(name: &str) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    fs::read_to_string(top.join("contrib").join(name)).expect("it is there")
}

/// The queries of the dashboard, with what Grafana puts in for its variables.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file_of_contrib("grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.filter_map(|target| target["expr"].as_str());
    queries.map(|query| query.replace("$service", ".*").replace("$__rate_interval", "1m")).collect()
}

#[test]
fn prometheus_finds_what_dashboard_and_alerts_ask_for() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let run = [RINGWAY, "run", "-q", "--name", &name, "--", "socat", "TCP-LISTEN:80,fork,reuseaddr", "EXEC:cat"];
    let mut server = net.spawn(Server, &run);
    net.wait_served(Server, 80, &mut server);
    let mut metrics = net.spawn(Server, &[RINGWAY, "metrics", "--listen", METRICS]);
    metrics.wait_for_error_line("ringway metrics: ");
    let rules = net.file("alerts.yml", file_of_contrib("alerts.yml"));
    let config = format!(
        "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\nrule_files: ['{rules}']\n\
         scrape_configs: [{{job_name: ringway, static_configs: [{{targets: ['{METRICS}']}}]}}]\n"
    );
    let config = net.file("prometheus.yml", config);
    let options = [
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={}", text(&net.path("data"))),
        format!("--web.listen-address={PROMETHEUS}"),
        "--log.level=warn".to_owned(),
    ];
    let command: Vec<&str> = ["prometheus"].into_iter().chain(options.iter().map(String::as_str)).collect();
    let mut prometheus = net.spawn(Server, &command);
    let target = |net: &Net| ask(net, "targets", "")["data"]["activeTargets"][0].clone();
    prometheus.wait_while_running("scrapes", || target(&net)["health"] == "up");

    let samples = |query: &str| ask(&net, "query", query)["data"]["result"].as_array().map_or(0, Vec::len);
    let queries = queries();
    assert!(queries.len() > 10, "{queries:?}");
    // The first answer of a query over time needs two scrapes.
    prometheus.wait_while_running("has data of two scrapes", || {
        net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]);
        samples("rate(ringway_Turns_total[1m])") > 0
    });
    let without: Vec<&String> = queries.iter().filter(|query| samples(query) == 0).collect();
    assert!(without.is_empty(), "no data for {without:#?}");
    let median = "histogram_quantile(0.5, sum by (le) (rate(ringway_round_trip_seconds_bucket[1m])))";
    let seconds = || {
        let answer = ask(&net, "query", median);
        answer["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok())
    };
    prometheus.wait_while_running("has a median round trip", || {
        net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]);
        seconds().is_some_and(|seconds| seconds > 0.0 && seconds < 5.0)
    });
    let services = ask(&net, "query", "group by (service) (ringway_sockets)");
    assert_eq!(services["data"]["result"][0]["metric"]["service"], name.as_str());

    let rules = || ask(&net, "rules", "")["data"]["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    prometheus.wait_while_running("has evaluated the rules", || {
        let rules = rules();
        !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok")
    });
    assert_eq!(rules().len(), file_of_contrib("alerts.yml").matches("- alert:").count());
    assert_eq!(target(&net)["lastError"], "", "each page is of the format");
}
