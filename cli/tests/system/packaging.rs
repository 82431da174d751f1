//! The Debian package on a copy of this machine: installed, used, and purged without a trace.

use std::path::Path;
use std::process::Command;

use crate::harness::*;

/// One unit accelerated, one command that shows it, and nothing left after the purge.
const STEPS: &str = r#"
web= service=
trap 'kill $web $service 2> /dev/null || :' EXIT
files > /tmp/before; users > /tmp/users
install
ringway --version | grep -q '^commit '
id ringway > /dev/null
bash -n /usr/share/bash-completion/completions/ringway
bash -c '. /usr/share/bash-completion/completions/ringway; complete -p ringway' | grep -q _ringway
for page in 1:ringway-ss 1:ringway-config-set 5:ringway.toml 7:ringway 8:ringway-preload; do
    zcat /usr/share/man/man${page%%:*}/${page#*:}.${page%%:*}.gz | groff -man -Kutf8 -Tutf8 -ww > /dev/null 2> /tmp/troff
    if [ -s /tmp/troff ]; then cat /tmp/troff; exit 1; fi
done

ringway serve 2> /tmp/serve.log &
service=$!
until grep -q ready /tmp/serve.log; do kill -0 $service; sleep 0.1; done

ringway enable --dry-run web | grep '^+SupplementaryGroups=ringway$' > /dev/null
test ! -e /etc/systemd/system/web.service.d
ringway enable web
file=/etc/systemd/system/web.service.d/ringway.conf
ringway enable web | grep 'enabled already' > /dev/null
env $(sed -n 's/^Environment=//p' $file) socat TCP-LISTEN:8080,fork,reuseaddr EXEC:cat &
web=$!
until ringway ss -Htln | grep ':8080 '; do kill -0 $web; sleep 0.1; done
ringway ss -Htlnp | grep -q socat
ringway why :8080
ringway why -j $web | grep -q '"path":"stack"'
sleep 100 &
other=$!
ringway why $other && exit 1
kill $other

kill $web $service
wait $service
web= service=
purge
test ! -e $file
files > /tmp/after
diff /tmp/before /tmp/after
users | diff /tmp/users -
echo "nothing is left"
"#;

#[test]
fn a_package_is_installed_used_and_purged() {
    let net = Net::new();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let release = Path::new(RINGWAY).parent().expect("the command stands in a folder");
    let made = Command::new("sh").arg(top.join("packaging/deb.sh")).arg(net.path("packages")).env("RELEASE", release).output();
    let made = made.expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let machine = std::fs::read_dir(net.path("packages")).expect("it was made");
    let packages: Vec<_> = machine.map(|entry| entry.expect("it is read").path()).collect();
    let is_main = |path: &&std::path::PathBuf| text(path).contains("/ringway_");
    let package = text(packages.iter().find(is_main).expect("there are two packages"));
    let steps = net.file("steps", STEPS);
    let script = text(&top.join("cli/tests/system/packaging.sh"));
    let command = format!("exec sh {script} {package} {} < {steps}", text(&net.path("copy")));
    let done = net.run(Server, &["unshare", "--mount", "sh", "-c", &command]).success();
    assert!(done.stdout.ends_with("nothing is left\n"), "{}", done.stdout);
    assert!(done.stdout.contains("+Wants=ringway.service\n") && done.stdout.contains(":8080 "), "{}", done.stdout);
    assert!(done.stdout.contains("on Ringway, service default\n  LISTEN 0.0.0.0:8080 0.0.0.0:*: the stack\n"), "{}", done.stdout);
    assert!(done.stdout.contains("on the kernel: it was not started on Ringway\n  remedy: "), "{}", done.stdout);
}

/// What `make install` has put somewhere, `make uninstall` takes away.
#[test]
fn an_installation_is_taken_away_again() {
    let net = Net::new();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let root = net.path("root");
    let release = Path::new(RINGWAY).parent().expect("the command stands in a folder");
    let make = |target: &str| {
        let folders = [format!("DESTDIR={}", root.display()), format!("RELEASE={}", release.display())];
        let done = Command::new("make").args(["-s", "-C", &text(top), target, &folders[0], &folders[1]]).output().expect("make");
        assert!(done.status.success(), "{target}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let files = || {
        let found = Command::new("find").arg(&root).args(["!", "-type", "d"]).output().expect("find");
        String::from_utf8(found.stdout).expect("plain names")
    };
    make("install-files");
    std::fs::write(root.join("usr/local/bin/other"), "").expect("the folder was made");
    let units = std::fs::read_to_string(root.join("usr/local/lib/systemd/system/ringway.service")).expect("the unit is there");
    assert!(units.contains("ExecStart=/usr/local/bin/ringway serve\n"), "{units}");
    make("uninstall");
    assert_eq!(files(), format!("{}\n", text(&root.join("usr/local/bin/other"))));
    assert!(!root.join("usr/local/lib/ringway").exists());
}
