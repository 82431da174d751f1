//! The drop-in of a unit, and what of a unit would keep its processes from Ringway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use ringway_channel::attach::DIRECTORY_VARIABLE;

/// The first line of each drop-in.
pub(super) const FIRST_LINE: &str = "# Written by `ringway enable`; `ringway disable` removes it.";

/// The unit of the service of the machine's own network namespace.
pub(super) const SERVICE_UNIT: &str = "ringway.service";

const GROUP: &str = "Environment=RINGWAY_GROUP=";

/// What stands in a drop-in.
pub(super) struct DropIn {
    pub(super) library: PathBuf,
    /// The name of the service, which each process looks for in its network namespace.
    pub(super) service: String,
    /// Another run directory than that of this machine.
    pub(super) directory: Option<PathBuf>,
    /// The unit that starts the service; `None`: it is none that comes with Ringway.
    pub(super) service_unit: Option<String>,
    /// The group of users that the service serves, if this machine has it.
    pub(super) group: Option<String>,
    pub(super) group_token: String,
}

impl DropIn {
    /// Its text.
    pub(super) fn text(&self) -> String {
        let (library, service) = (self.library.display(), &self.service);
        let wants = |unit: &String| format!("[Unit]\nWants={unit}\nAfter={unit}\n\n");
        let wants = self.service_unit.as_ref().map(wants).unwrap_or_default();
        let directory = |path: &PathBuf| format!("Environment={DIRECTORY_VARIABLE}={}\n", path.display());
        let directory = self.directory.as_ref().map(directory).unwrap_or_default();
        let group = self.group.iter().map(|group| format!("SupplementaryGroups={group}\n")).collect::<String>();
        format!(
            "{FIRST_LINE}\n{wants}[Service]\nEnvironment=LD_PRELOAD={library}\n\
             Environment=RINGWAY_SOCKET={service}\n{directory}{GROUP}{}\n{group}",
            self.group_token
        )
    }

    /// The token of a drop-in that is there already: its processes go on as one group.
    pub(super) fn token_in(text: &str) -> Option<&str> {
        text.lines().find_map(|line| line.strip_prefix(GROUP))
    }
}

/// What systemd says of a unit.
pub(super) struct Shown(BTreeMap<String, String>);

/// The properties that matter.
const PROPERTIES: &str = "LoadState,NetworkNamespacePath,PrivateNetwork,RestrictAddressFamilies,RootDirectory,RootImage,RestrictNetworkInterfaces,IPAddressDeny,Environment";

impl Shown {
    /// Asks systemd; `None`: there is none that answers.
    pub(super) fn of(unit: &str) -> Option<Shown> {
        let asked = Command::new("systemctl").args(["show", "--property", PROPERTIES, "--", unit]).output().ok()?;
        asked.status.success().then(|| Shown::read(&String::from_utf8_lossy(&asked.stdout)))
    }

    /// Reads `systemctl show`.
    pub(super) fn read(text: &str) -> Shown {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Shown(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, property: &str) -> &str {
        self.0.get(property).map_or("", String::as_str)
    }

    /// The unit of Ringway's that serves its network namespace; `None`: that has no name in ip-netns(8).
    pub(super) fn service_unit(&self) -> Option<String> {
        let path = self.get("NetworkNamespacePath");
        if path.is_empty() {
            return Some(SERVICE_UNIT.to_owned());
        }
        path.strip_prefix("/run/netns/").filter(|name| !name.contains('/')).map(|name| format!("ringway@{name}.service"))
    }

    /// Why its processes could not use Ringway, if that is so.
    pub(super) fn objection(&self) -> Option<String> {
        let families = self.get("RestrictAddressFamilies");
        let listed = families.split_whitespace().any(|family| family.trim_start_matches('~') == "AF_UNIX");
        if self.get("LoadState") == "not-found" {
            return Some("systemd has no such unit".to_owned());
        }
        if self.get("PrivateNetwork") == "yes" {
            return Some("PrivateNetwork=yes: it has a network of its own".to_owned());
        }
        if !families.is_empty() && listed == families.starts_with('~') {
            return Some(format!(
                "RestrictAddressFamilies={families}: AF_UNIX, by which programs reach the service, is not allowed"
            ));
        }
        let image = ["RootDirectory", "RootImage"].into_iter().find(|property| !self.get(property).is_empty());
        if let Some(property) = image {
            return Some(format!("{property}={}: library and socket are not in there", self.get(property)));
        }
        let filter = ["RestrictNetworkInterfaces", "IPAddressDeny"].into_iter().find(|property| !self.get(property).is_empty());
        if let Some(property) = filter {
            return Some(format!(
                "{property}={}: such filters do not see Ringway's packets, so it stays on the kernel",
                self.get(property)
            ));
        }
        let preloads =
            self.get("Environment").split_whitespace().any(|variable| variable.trim_matches('"').starts_with("LD_PRELOAD="));
        // Its own drop-in names the library of Ringway.
        (preloads && !self.get("Environment").contains("libringway_preload.so"))
            .then(|| "it sets LD_PRELOAD itself; add the library there".to_owned())
    }
}

/// The name of a service unit, with `.service`.
pub(super) fn full_name(text: &str) -> Result<String, String> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || ":_.\\@-".contains(letter);
    let name = if text.ends_with(".service") { text.to_owned() } else { format!("{text}.service") };
    let stem = name.trim_end_matches(".service");
    if stem.is_empty() || stem.starts_with('.') || name.len() > 255 || !name.chars().all(is_good) {
        return Err("it is not the name of a service unit".to_owned());
    }
    match stem.rsplit_once('.') {
        Some((_, kind @ ("socket" | "target" | "timer" | "mount" | "path" | "slice" | "scope" | "device"))) => {
            Err(format!("only services run programs, not a {kind}"))
        }
        _ => Ok(name),
    }
}
