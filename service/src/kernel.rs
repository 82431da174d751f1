//! The version of the running kernel, where it decides.

/// TCX links, which hide our packets from the kernel's TCP, came with this.
pub const TCX_SINCE: (u32, u32) = (6, 6);

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Returns true if the running kernel has TCX; one whose release cannot be read has not.
pub fn has_tcx() -> bool {
    is_tcx_release(&release())
}

/// Returns true if the running kernel may have BPF programs at netfilter's hooks, which came with 6.4.
pub(crate) fn has_netfilter_programs() -> bool {
    version(&release()).is_none_or(|version| version >= (6, 4))
}

fn is_tcx_release(release: &str) -> bool {
    version(release).is_some_and(|version| version >= TCX_SINCE)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests;
