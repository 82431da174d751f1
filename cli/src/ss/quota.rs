//! The quotas of `ss -s`: for the service, each user and each application group, what is used, the most that may
//! be, and how often more was wanted.
//!
//! The rows follow the table of the service (`engine/src/quota.rs`) by way of its statistics files. Limits are each worker's, so
//! each worker's use is shown.

use std::io::{self, Write};

use ringway_service::printable;
use ringway_shm::stats::{Holder, HolderRecord, QuotaRecord};
use serde_json::{Value, json};

use crate::services::Service;

/// The quotas of one worker of a service.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) service: String,
    pub(super) worker: u32,
    pub(super) keys: Vec<String>,
    pub(super) holders: Vec<HolderRecord>,
}

impl Told {
    pub(super) fn by(service: &Service) -> Told {
        let (keys, holders) = (service.stats.quotas(), service.stats.holders());
        Told { service: service.label.clone(), worker: service.worker, keys, holders }
    }

    /// Keys with their quotas, in the unit of the key.
    fn rows<'a>(&'a self, record: &'a HolderRecord) -> impl Iterator<Item = (&'a str, QuotaRecord)> {
        self.keys.iter().zip(&record.quotas).filter_map(|(key, quota)| Some((key.as_str(), in_unit_of(key, quota.as_ref()?))))
    }

    fn title(&self, holder: &Holder) -> String {
        match holder {
            Holder::Service if self.worker == 0 => format!("service {}", printable(&self.service)),
            Holder::Service => format!("service {}, worker {}", printable(&self.service), self.worker),
            Holder::User(uid) => format!("user {uid}"),
            Holder::Group { uid, pid, program, .. } => format!("group {pid} {} of user {uid}", printable(program)),
        }
    }
}

/// Workers tell bytes; a key that ends in `_mib` counts MiB. What is used is rounded up, the limit down.
fn in_unit_of(key: &str, quota: &QuotaRecord) -> QuotaRecord {
    let QuotaRecord { used, limit, hits } = *quota;
    match key.ends_with("_mib") {
        true => QuotaRecord { used: used.map(|bytes| bytes.div_ceil(1 << 20)), limit: limit.map(|bytes| bytes >> 20), hits },
        false => QuotaRecord { used, limit, hits },
    }
}

/// The table, 80 columns wide.
pub(super) fn text(out: &mut impl Write, told: &[Told]) -> io::Result<()> {
    if told.iter().any(|told| !told.holders.is_empty()) {
        writeln!(out, "\n{:<32}{:>12} {:>14} {:>20}", "Quota (limits.*)", "Used", "Limit", "Hits")?;
    }
    for told in told {
        for record in &told.holders {
            writeln!(out, "{}", told.title(&record.holder))?;
            for (key, quota) in told.rows(record) {
                let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
                let (used, limit) = (number(quota.used), number(quota.limit));
                writeln!(out, "  {:<30}{used:>12} {limit:>14} {:>20}", printable(key), quota.hits)?;
            }
        }
    }
    Ok(())
}

/// The same as JSON.
pub(super) fn json(told: &[Told]) -> Vec<Value> {
    let records = told.iter().flat_map(|told| told.holders.iter().map(move |record| (told, record)));
    let quota = |(key, quota): (&str, QuotaRecord)| json!({ "key": format!("limits.{key}"), "used": quota.used, "limit": quota.limit, "hits": quota.hits });
    records
        .map(|(told, record)| {
            let holder = match &record.holder {
                Holder::Service => json!({ "scope": "service" }),
                Holder::User(uid) => json!({ "scope": "user", "uid": uid }),
                Holder::Group { region, uid, pid, program } => {
                    json!({ "scope": "group", "uid": uid, "pid": pid, "program": program, "region": region })
                }
            };
            let quotas: Vec<Value> = told.rows(record).map(quota).collect();
            json!({ "service": told.service, "worker": told.worker, "holder": holder, "quotas": quotas })
        })
        .collect()
}

#[cfg(test)]
mod tests;
