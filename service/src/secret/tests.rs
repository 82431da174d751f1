use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::of_this_boot;
use crate::rundir::RunDirectory;

#[test]
fn every_service_of_a_boot_gets_the_same_secret_and_no_other_user_can_read_it() {
    let path = std::env::temp_dir().join(format!("ringway-boot-{}", std::process::id()));
    let directory = RunDirectory::at(path.clone());
    let first = of_this_boot(&directory).expect("temporary files can be made");
    assert_eq!(of_this_boot(&directory).expect("made before"), first);
    let file = path.with_extension("secret");
    assert_eq!(fs::metadata(&file).expect("made").permissions().mode() & 0o777, 0o600);

    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("ours");
    of_this_boot(&directory).expect_err("others may have read it");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("ours");
    fs::write(&file, "short").expect("ours");
    of_this_boot(&directory).expect_err("not eight bytes");

    fs::remove_file(&file).expect("ours");
    assert_ne!(of_this_boot(&directory).expect("made again"), first);
    fs::remove_file(&file).expect("ours");
}
