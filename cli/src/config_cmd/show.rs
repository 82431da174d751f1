//! `ringway config show`: every key, of the configuration that would be read or of a running service.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ringway_service::config::Value;
use ringway_service::{Config, RunDirectory, is_live, published};
use serde_json::{Map, Value as Json, json};

/// Arguments of `ringway config show`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    config: Option<PathBuf>,
    /// Print values only, without reasons
    #[arg(long, conflicts_with = "json")]
    effective: bool,
    /// Print an object: for each key its value, default, values that may stand there, origin and reason
    #[arg(long)]
    json: bool,
    /// Show what the running service of this name follows
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Prints it.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(name) = &arguments.name {
        return running(name, arguments);
    }
    match Config::load(arguments.config.as_deref(), std::env::vars_os().collect()) {
        Ok(config) if arguments.json => super::print(&json(&config, |_, origin| origin.map(str::to_owned))),
        Ok(config) if arguments.effective => super::print(&config.effective()),
        Ok(config) => super::print(&config.show()),
        Err(error) => super::fail(&error),
    }
}

fn running(name: &str, arguments: &Arguments) -> ExitCode {
    let found = super::diff::living(name).and_then(|()| {
        published::read(&RunDirectory::of_this_machine().config_path(name)).map_err(|error| format!("service {name}: {error}"))
    });
    match found {
        Ok(found) if arguments.json => super::print(&json(&found.config, |key, _| found.origin(key).map(str::to_owned))),
        Ok(found) if arguments.effective => super::print(&found.config.effective()),
        Ok(found) => super::print(&found.config.show_with(|key| found.origin(key))),
        Err(text) => super::fail(&text),
    }
}

fn json(config: &Config, origin: impl Fn(&str, Option<&str>) -> Option<String>) -> String {
    let entries = config.entries().map(|(key, value, from)| {
        let entry = json!({
            "value": plain(value),
            "default": plain(&key.default_value()),
            "expected": key.expected(),
            "origin": origin(key.path, from),
            "live": is_live(key.path),
            "why": key.why,
        });
        (key.path.to_owned(), entry)
    });
    let rules: Vec<String> = config.rules().iter().map(ToString::to_string).collect();
    let object: Map<String, Json> = entries.chain([("rule".to_owned(), json!(rules))]).collect();
    format!("{:#}\n", Json::Object(object))
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Flag(flag) => json!(flag),
        Value::Number(number) => json!(number),
        Value::Auto => json!("auto"),
        Value::Text(text) => json!(text),
        Value::Texts(texts) => json!(texts),
    }
}
