use super::*;

#[test]
fn the_reports_of_other_loads_are_read() {
    let redis = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\"GET\",\"52083.33\",\"0.5\",\"0.1\",\"0.4\",\"0.6\",\"0.75\",\"1.2\"\n";
    let expected = Figures { requests: 100.0, requests_per_s: 52_083.33, p50_us: 400.0, p99_us: 750.0 };
    assert_eq!(redis_figures(redis, 100), Some(expected));
    for broken in ["", "\"test\"", "\"GET\",\"fast\"", "Could not connect"] {
        assert_eq!(redis_figures(broken, 100), None, "{broken}");
    }
}

#[test]
fn every_load_of_every_program_has_a_name_of_its_own() {
    use clap::ValueEnum;
    let labels = Program::value_variants().iter().flat_map(|program| program.loads().iter().map(|load| load.label(*program)));
    let labels: Vec<String> = labels.collect();
    assert!(labels.contains(&"redis GET short".to_string()) && labels.contains(&"nginx keep-alive".to_string()), "{labels:?}");
    let different: std::collections::BTreeSet<&String> = labels.iter().collect();
    assert_eq!(different.len(), labels.len());
}
