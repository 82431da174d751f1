//! `ringway metrics`: what the services' statistics files say, in the OpenMetrics format, once or for each request of a scraper.
//!
//! The process reads the same files as `ringway ss` and asks no service: what a scraper does, no worker sees. Does not do: keep anything
//! between two scrapes.

mod families;
mod http;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;

use crate::output;
use crate::services;

/// Arguments of `ringway metrics`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  ringway metrics > /var/lib/prometheus/node-exporter/ringway.prom   for the textfile collector of node_exporter
  ringway metrics --listen 127.0.0.1:9481                            for Prometheus: job with that target
  ringway metrics --listen /run/ringway-metrics.sock                 curl --unix-socket FILE http://ringway/metrics
Exit status: 0: printed; 1: it failed. With --listen it runs until it is ended.")]
pub(crate) struct Arguments {
    /// Serve GET /metrics at ADDRESS:PORT, or at a UNIX socket, of which a path with a `/` is the name
    #[arg(long, value_name = "WHERE")]
    listen: Option<Place>,
    #[command(flatten)]
    services: services::Choice,
}

/// Where scrapers ask.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text.contains('/') {
            return Ok(Place::Unix(PathBuf::from(text)));
        }
        text.parse().map(Place::Tcp).map_err(|_| format!("{text} is no ADDRESS:PORT and no path"))
    }
}

/// Prints or serves them.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let page = || arguments.services.find().map(|services| families::page(&services));
    match &arguments.listen {
        None => output::end("metrics", page().and_then(|page| output::write(&page))),
        Some(place) => output::end("metrics", http::serve(place, page)),
    }
}

#[cfg(test)]
mod tests;
