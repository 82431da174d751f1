use clap::CommandFactory;
use ringway_service::config::keys::KEYS;

#[test]
fn every_command_and_every_key_has_its_place() {
    let folder = std::env::temp_dir().join(format!("ringway-manual-{}", std::process::id()));
    super::write_pages(&folder).expect("the folder is ours");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    for command in crate::args::Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(read(&format!("ringway-{}.1", command.get_name())).contains(".SH SYNOPSIS"));
    }
    assert!(read("ringway-config-set.1").contains("persist"));
    let keys = read("ringway.toml.5");
    for key in KEYS {
        assert!(keys.contains(&format!("\\fB{}\\fR", key.name().replace('-', "\\-"))), "{}", key.path);
    }
    std::fs::remove_dir_all(&folder).expect("it was made");
}
