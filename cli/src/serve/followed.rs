//! The configuration that the service follows: read at its start and at each SIGHUP, and shown in the run directory.
//!
//! Promises: a configuration with a mistake changes nothing. A run directory that cannot be written costs what `ringway config diff`
//! shows, not the service.

use std::io;
use std::path::{Path, PathBuf};

use ringway_service::config::DEFAULT_PATH;
use ringway_service::{Config, RunDirectory, Service, published};

/// The configuration, and where it comes from and is shown.
pub(super) struct Followed {
    pub(super) config: Config,
    arguments: Source,
    /// Where it is shown.
    shown: PathBuf,
    /// What `ringway config set` has written.
    set: PathBuf,
    readings: u64,
}

/// What the command line says of the configuration.
pub(super) struct Source {
    pub(super) file: Option<PathBuf>,
    pub(super) workers: Option<u32>,
}

impl Source {
    /// Reads the configuration, with `set` before everything else.
    pub(super) fn load(&self, set: &str) -> Result<Config, String> {
        let environment = crate::run::environment(self.workers, None);
        Config::load_with(self.file.as_deref(), environment, set).map_err(|error| error.to_string())
    }

    fn path(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(DEFAULT_PATH))
    }
}

impl Followed {
    /// Shows the configuration that `service` has started with.
    pub(super) fn new(config: Config, arguments: Source, service: &Service, directory: &RunDirectory) -> Followed {
        let (shown, set) = (directory.config_path(service.name()), directory.set_path(service.name()));
        let mut followed = Followed { config, arguments, shown, set, readings: 0 };
        followed.show(None);
        followed
    }

    /// Reads the configuration again; a mistake in it is told, and changes nothing.
    pub(super) fn reload(&mut self, service: &Service) -> io::Result<()> {
        match self.read() {
            Ok(reloaded) => {
                service.follow_config(&self.config)?;
                let list = |keys: &[&str]| if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
                let (applied, restart) = (list(&reloaded.applied), list(&reloaded.restart));
                ringway_service::log::follow(&self.config.log);
                tracing::info!(target: "ringway::config", applied, restart, "configuration read again: changed: {applied}; needs a restart: {restart}");
                self.show(None);
            }
            Err(error) => {
                tracing::warn!(target: "ringway::config", "the configuration stays as it is: {}", error.replace('\n', "; "));
                self.show(Some(&error));
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<ringway_service::Reloaded, String> {
        let set = published::read_set(&self.set).map_err(|error| format!("{}: {error}", self.set.display()))?;
        let new = self.arguments.load(&set)?;
        self.config.reload(&new).map_err(|error| error.to_string())
    }

    fn show(&mut self, refused: Option<&str>) {
        self.readings += 1;
        if let Err(error) = published::note(&self.shown, &self.config, self.arguments.path(), self.readings, refused) {
            tracing::warn!(target: "ringway::config", "{} cannot be written: {error}", self.shown.display());
        }
    }
}
