//! The packages on a copy of this machine: installed, used, and purged without a trace.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;

/// One unit accelerated, one command that shows it, and nothing left after the purge.
const STEPS: &str = r#"
web= service= listed=
trap 'kill $web $service $listed 2> /dev/null || :' EXIT
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

# A program that is listed is on Ringway whatever starts it; the library is in all programs from here on, the service's too.
socat=$(readlink -f "$(command -v socat)")
ringway enable --dry-run --program "$socat" | grep '^+/usr/lib/ringway/libringway_preload.so$' > /dev/null
test ! -e /etc/ld.so.preload
cp "$socat" /tmp/capable
python3 -c "import os; os.setxattr('/tmp/capable', 'security.capability', bytes([0, 0, 0, 2, 0, 4] + [0] * 14))"
for refused in /etc/passwd /bin/su /tmp/capable socat /usr/bin/ringway '/usr/bin/socat --name x/y'; do ringway enable --program $refused 2>> /tmp/refused && exit 1; done
(umask 077; ringway enable --program /usr/bin/socat)
ringway enable --program /usr/bin/socat | grep 'enabled already' > /dev/null
ringway doctor | grep 'programs on Ringway whatever starts them: ' > /dev/null

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

socat TCP-LISTEN:8081,fork,reuseaddr EXEC:cat &
listed=$!
until ringway ss -Htln | grep -q ':8081 '; do kill -0 $listed; sleep 0.1; done
ringway why $listed | grep -q 'on Ringway, service default'
grep -q ringway-region /proc/$listed/maps
kill $listed
# In a program that gains rights the library does nothing, whatever its caller sets; nor where others could have written the list.
cp "$socat" /tmp/gains
chmod 4755 /tmp/gains
echo /tmp/gains >> /etc/ringway/programs
RINGWAY_SOCKET=default RINGWAY_GROUP=00000000000000000000000000000001 \
    setpriv --reuid 65534 --clear-groups /tmp/gains TCP-LISTEN:8082,fork,reuseaddr EXEC:cat &
listed=$!
until ss -Htln | grep -q ':8082 '; do kill -0 $listed; sleep 0.1; done
grep ringway-region /proc/$listed/maps && exit 1
kill $listed
chmod g+w /etc/ringway/programs
socat TCP-LISTEN:8083,fork,reuseaddr EXEC:cat &
listed=$!
until ss -Htln | grep -q ':8083 '; do kill -0 $listed; sleep 0.1; done
grep ringway-region /proc/$listed/maps && exit 1
kill $listed
listed=
ringway disable --program /usr/bin/socat
grep -q libringway_preload.so /etc/ld.so.preload
ringway disable --program /tmp/gains
test ! -e /etc/ld.so.preload
test ! -e /etc/ringway/programs
ringway disable --program /usr/bin/socat | grep 'is not enabled' > /dev/null
# A purge leaves the loader nothing to complain of.
echo /usr/lib/other.so > /etc/ld.so.preload
ringway enable --program /usr/bin/socat 2>&1 | grep '^+' > /dev/null
grep -q '^/usr/lib/other.so$' /etc/ld.so.preload
test "$(stat -c %a /etc/ld.so.preload /etc/ringway/programs | uniq)" = 644
sed -i /other/d /etc/ld.so.preload

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

/// The folder of the project, and packages that one of its scripts makes.
fn packages(net: &Net, script: &str) -> (PathBuf, Vec<String>) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate stands in the workspace");
    let release = Path::new(RINGWAY).parent().expect("the command stands in a folder");
    let made =
        Command::new("sh").arg(top.join("packaging").join(script)).arg(net.path("packages")).env("RELEASE", release).output();
    let made = made.expect("a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = std::fs::read_dir(net.path("packages")).expect("it was made");
    let mut names: Vec<String> = made.map(|entry| text(&entry.expect("it is read").path())).collect();
    names.sort();
    (top.to_owned(), names)
}

/// Runs steps in a copy of this machine, with functions that install and purge the package; returns what they print.
fn on_a_copy(net: &Net, top: &Path, package: &str, steps: &str) -> String {
    let steps = net.file("steps", steps);
    let script = text(&top.join("cli/tests/system/packaging.sh"));
    let command = format!("exec sh {script} {package} {} < {steps}", text(&net.path("copy")));
    net.run(Server, &["unshare", "--mount", "sh", "-c", &command]).success().stdout
}

#[test]
fn a_package_is_installed_used_and_purged() {
    let net = Net::new();
    let (top, made) = packages(&net, "deb.sh");
    let package = made.iter().find(|path| path.contains("/ringway_")).expect("there are two packages");
    let done = on_a_copy(&net, &top, package, STEPS);
    assert!(done.ends_with("nothing is left\n"), "{done}");
    assert!(done.contains("+Wants=ringway.service\n") && done.contains(":8080 "), "{done}");
    assert!(done.contains("+++ /etc/ringway/programs\n") && done.contains("+++ /etc/ld.so.preload\n"), "{done}");
    assert!(done.contains("on Ringway, service default\n  LISTEN 0.0.0.0:8080 0.0.0.0:*: the stack\n"), "{done}");
    assert!(done.contains("on the kernel: it was not started on Ringway\n  remedy: "), "{done}");
}

/// The package of rpm: its files run, and go again; the user stays.
const RPM_STEPS: &str = r#"
plain() { files | while read -r file; do if [ ! -d "$file" ]; then echo "$file"; fi; done | grep -v '^/var/lib/rpm/' | sort; }
plain > /tmp/before
install
rpm -q ringway
ringway --version | grep -q '^commit '
id ringway > /dev/null
ringway run --dry-run -- true
rpm -ql ringway | while read -r file; do test -e "$file" || test -L "$file"; done
touch /run/ringway.key
purge
test ! -e /usr/bin/ringway
test ! -e /run/ringway.key
plain > /tmp/after
diff /tmp/before /tmp/after
echo "nothing is left"
"#;

#[test]
fn an_rpm_is_installed_and_erased() {
    let net = Net::new();
    let (top, made) = packages(&net, "rpm.sh");
    let names: Vec<&str> = made.iter().filter_map(|path| path.rsplit('/').next()).collect();
    assert!(names.len() == 2 && names[0].starts_with("ringway-0.") && names[1].starts_with("ringway-devel-"), "{names:?}");
    let files = net.output(Server, &["rpm", "-qlp", &made[1]]);
    for file in ["include/ringway.h", "include/ringway/mtcp/mtcp_api.h", "include/ringway/fstack/ff_api.h"] {
        assert!(files.contains(&format!("/usr/{file}\n")), "{file}: {files}");
    }
    for name in ["ringway", "libmtcp", "libfstack"] {
        assert!(files.contains(&format!("/pkgconfig/{name}.pc\n")), "{name}: {files}");
    }
    let needs = net.output(Server, &["rpm", "-qp", "--requires", &made[0]]);
    assert!(needs.contains("libc.so.6") && !needs.contains("libringway"), "{needs}");
    let done = on_a_copy(&net, &top, &made[0], RPM_STEPS);
    assert!(done.contains("ringway-0.") && done.ends_with("nothing is left\n"), "{done}");
}

/// The archive may be unpacked anywhere; its command finds its library.
#[test]
fn an_archive_is_unpacked_and_used_and_made_again_is_the_same() {
    let net = Net::new();
    let archive = || packages(&net, "archive.sh").1.pop().expect("it was made");
    let made = archive();
    let digest = digest_of(&made).expect("it is read");
    let root = net.path("root");
    std::fs::create_dir(&root).expect("a folder of ours");
    net.output(Server, &["tar", "-C", &text(&root), "-xzf", &made]);
    let command = text(&root.join("usr/local/bin/ringway"));
    assert!(net.output(Server, &[&command, "--version"]).contains("\ncommit "));
    let program = "import socket; s = socket.socket(); s.bind(('', 7000)); s.listen()";
    net.output(Server, &[&command, "run", "--quiet", "--enforce", "strict", "--", "python3", "-c", program]);
    assert_eq!(digest_of(archive()).expect("it is read"), digest);
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
