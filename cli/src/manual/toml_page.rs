//! The page ringway.toml(5), from the tables of keys and profiles.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use ringway_service::config::keys::{KEYS, Key};
use ringway_service::config::profiles::PROFILES;

/// The page's source.
pub(super) fn page() -> String {
    let mut page = Roff::new();
    page.control("TH", ["RINGWAY.TOML", "5", "", "Ringway", "File formats"]);
    head(&mut page);
    page.control("SH", ["KEYS"]);
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            page.control("SS", [format!("[{section}]").as_str()]);
        }
        entry(&mut page, key);
    }
    rules(&mut page);
    profiles(&mut page);
    tail(&mut page);
    page.to_roff()
}

fn paragraph(page: &mut Roff, text: impl Into<Vec<Inline>>) {
    page.control("PP", []);
    page.text(text);
}

fn head(page: &mut Roff) {
    page.control("SH", ["NAME"]);
    page.text([roman("ringway.toml - the configuration of the Ringway network service")]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([italic("/etc/ringway/ringway.toml")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "The file is TOML. A key that does not stand in it has its default. A key that is not in this page, a value of the wrong kind and one \
         that is out of range are mistakes: the service does not start, and a running one goes on with what it has.",
    )]);
    paragraph(
        page,
        [
            bold("ringway config check"),
            roman(" names all mistakes of a file with their lines, "),
            bold("ringway config show"),
            roman(" prints every key with its value and where the value is from, "),
            bold("ringway config set"),
            roman(" changes a running service. A variable "),
            bold("RINGWAY_SECTION_KEY"),
            roman(" of the environment goes before the file."),
        ],
    );
    paragraph(page, [roman("On SIGHUP the service reads the file again. It names the keys that need a restart.")]);
}

fn entry(page: &mut Roff, key: &Key) {
    page.control("TP", []);
    page.text([bold(key.name()), roman(" = "), italic(key.default_value().to_string())]);
    page.text([roman(format!("Values: {}.", key.expected()))]);
    page.control("br", []);
    page.text([roman(key.why)]);
}

fn rules(page: &mut Roff) {
    page.control("SH", ["RULES"]);
    page.text([
        roman("Tables "),
        bold("[[rule]]"),
        roman(
            " leave programs, ports and peers to the kernel, deny them, or set terms for them. The first rule that fits decides; without one the stack is used. ",
        ),
    ]);
    page.control("TP", []);
    page.text([bold("action")]);
    page.text([roman(
        "\"kernel\": the socket is the kernel's. \"accelerate\": it may be the stack's, and no later rule counts. \
         \"deny\": calls that want the socket fail with EACCES.",
    )]);
    page.control("TP", []);
    page.text([
        bold("program"),
        roman(", "),
        bold("path"),
        roman(", "),
        bold("user"),
        roman(", "),
        bold("port"),
        roman(", "),
        bold("address"),
        roman(", "),
        bold("peer"),
    ]);
    page.text([roman("What the rule fits; all that stand in one rule must fit. docs/configuration.md has the values.")]);
    page.control("TP", []);
    page.text([
        bold("congestion_control"),
        roman(", "),
        bold("rate"),
        roman(", "),
        bold("sockets"),
        roman(", "),
        bold("processes"),
    ]);
    page.text([roman(
        "Terms of a rule that accelerates: \"bbr\", \"200mbit\" for each connection, and what one program may have at most.",
    )]);
}

fn profiles(page: &mut Roff) {
    page.control("SH", ["PROFILES"]);
    page.text([bold("service.profile"), roman(" chooses one. What the file says goes before it.")]);
    for profile in PROFILES {
        page.control("SS", [profile.name]);
        page.text([roman(profile.about)]);
        for setting in profile.settings {
            page.control("TP", []);
            page.text([bold(setting.key), roman(" = "), italic(setting.value)]);
            page.text([roman(setting.why)]);
        }
    }
}

fn tail(page: &mut Roff) {
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("ringway-serve"), roman("(1), "), bold("ringway-config"), roman("(1), "), bold("ringway"), roman("(7)")]);
}
