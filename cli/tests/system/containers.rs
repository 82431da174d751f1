//! The manifests for Kubernetes, as far as namespaces go: the service and a program in containers that this test makes as they say, each with
//! processes, mounts and capabilities of its own and a root that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::*;

/// Goes into a cgroup, $2, of the hierarchy, which is mounted at $1; it stays there if $3 says so.
const ENTER_CGROUP: &str = "
set -e
mount --make-rprivate /
mount -t cgroup2 none \"$1\"
echo $$ > \"$1/$2/cgroup.procs\"
[ \"$3\" = shown ] || umount \"$1\"
shift 3
exec unshare --cgroup \"$@\"";

/// Becomes the inside of a container: $1 is mounted at /run/ringway, $2 at /etc/group, and the rest is read-only.
const ENTER: &str = "
set -e
mkdir -p /run/ringway
mount --bind \"$1\" /run/ringway
mount --bind \"$2\" /etc/group
mount -o remount,bind,ro /
mount -t proc proc /proc
if touch /usr/written 2>/dev/null; then echo 'the root can be written' >&2; exit 1; fi
shift 2
exec \"$@\"";

const PROGRAM: &str = "
import os, socket
s = socket.create_server(('0.0.0.0', 4310))
c, _ = s.accept()
c.sendall(b'%d %d' % (os.getuid(), os.getpid()))
c.close()
print('served', flush=True)";

const CLIENT: &str = "
import socket, sys
print(socket.create_connection((sys.argv[1], 4310), timeout=30).recv(100).decode())";

/// A manifest as JSON.
fn manifest(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes").join(name);
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let output = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3 runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn words(list: &Value) -> Vec<String> {
    let texts = list.as_array().expect("a list").iter().map(|word| word.as_str().expect("a text").to_owned());
    texts.collect()
}

/// The container of this name, of either list.
fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let all = [&pod["initContainers"], &pod["containers"]];
    let mut all = all.into_iter().filter_map(Value::as_array).flatten();
    all.find(|container| container["name"] == name).unwrap_or_else(|| panic!("no container {name}"))
}

/// setpriv(1) with the rights that a container has: root's capabilities are those of its bounding set.
fn confine(container: &Value) -> Vec<String> {
    let mut set = "-all".to_owned();
    for name in container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten() {
        set += &format!(",+{}", name.as_str().expect("a name").to_lowercase());
    }
    ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set", &set].map(str::to_owned).to_vec()
}

struct Pod<'a> {
    net: &'a Net,
    run: PathBuf,
    groups: String,
    cgroups: Cgroups,
}

/// Cgroups below one of the test's, in this machine's hierarchy.
struct Cgroups(PathBuf);

impl Cgroups {
    /// `None`: it is mounted nowhere.
    fn new() -> Option<Cgroups> {
        let mounts = fs::read_to_string("/proc/mounts").expect("there are mounts");
        let point =
            mounts.lines().find_map(|line| line.split_once(" cgroup2 ")?.0.split_once(' ').map(|(_, point)| point.to_owned()))?;
        let top = PathBuf::from(point).join(format!("ringway-pod-{}", std::process::id()));
        ["service", "program"].iter().for_each(|name| fs::create_dir_all(top.join(name)).expect("this test is root's"));
        Some(Cgroups(top))
    }

    fn name(&self, of: &str) -> String {
        format!("{}/{of}", self.0.file_name().expect("it has a name").display())
    }
}

impl Drop for Cgroups {
    /// Their processes end with the test's, a moment before or after.
    fn drop(&mut self) {
        for path in ["service", "program", ""].map(|name| self.0.join(name)) {
            wait_until("the cgroup is empty", DEADLINE, || fs::remove_dir(&path).is_ok());
        }
    }
}

impl<'a> Pod<'a> {
    fn new(net: &'a Net, group: u64, cgroups: Cgroups) -> Pod<'a> {
        let run = net.path("run");
        fs::create_dir(&run).expect("a folder of ours");
        fs::create_dir(net.path("cgroup")).expect("a folder of ours");
        let groups = net.file("group", format!("root:x:0:\nringway:x:{group}:\n"));
        Pod { net, run, groups, cgroups }
    }

    /// `of`: its cgroup. That of the service has the node's hierarchy.
    fn start(&self, of: &str, words: &[String], environment: &[(&str, &str)]) -> Process {
        let (run, point, cgroup) = (text(&self.run), text(&self.net.path("cgroup")), self.cgroups.name(of));
        let shown = if of == "service" { "shown" } else { "hidden" };
        let mut all =
            vec!["unshare", "--kill-child", "--mount", "--pid", "--fork", "--ipc", "--uts", "sh", "-c", ENTER_CGROUP, "sh"];
        all.extend([point.as_str(), &cgroup, shown, "sh", "-c", ENTER, "sh", &run, &self.groups]);
        // The variables are for the program alone.
        let pairs: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        all.extend(words[..at].iter().map(String::as_str));
        all.push("env");
        // Not the directory that the test's own tools use.
        all.extend(["-u", "RINGWAY_RUN_DIRECTORY"]);
        all.extend(pairs.iter().map(String::as_str));
        all.extend(words[at..].iter().skip(1).map(String::as_str));
        self.net.spawn(Server, &all)
    }
}

/// Starts what `container` says as the image does.
fn serve(pod: &Pod, container: &Value) -> Process {
    let mut words = confine(container);
    words.extend(["--".to_owned(), RINGWAY.to_owned()]);
    words.extend(self::words(&container["args"]));
    let mut service = pod.start("service", &words, &[]);
    service.wait_for_error_line("ready");
    service
}

#[test]
fn a_sidecar_serves_a_program_of_another_container() {
    let manifest = manifest("sidecar.yaml");
    let template = &manifest["spec"]["template"]["spec"];
    let group = template["securityContext"]["supplementalGroups"][0].as_u64().expect("a number");
    let Some(cgroups) = Cgroups::new() else { return };
    let net = Net::new();
    let pod = Pod::new(&net, group, cgroups);
    let sidecar = container(template, "ringway");
    let service = serve(&pod, sidecar);
    // The probe, inside the container.
    let inner = fs::read_to_string(format!("/proc/{0}/task/{0}/children", service.pid())).expect("it has a child");
    let mut probe =
        vec!["nsenter".to_owned(), "--target".to_owned(), inner.trim().to_owned(), "--mount".to_owned(), "--pid".to_owned()];
    probe.extend(["env", "-u", "RINGWAY_RUN_DIRECTORY", RINGWAY].map(str::to_owned));
    probe.extend(words(&sidecar["startupProbe"]["exec"]["command"]).into_iter().skip(1));
    let probe: Vec<&str> = probe.iter().map(String::as_str).collect();
    net.output(Server, &probe);
    // The program: an ordinary user without any capability.
    let nginx = container(template, "nginx");
    let variables: Vec<(String, String)> = nginx["env"].as_array().expect("a list").iter().map(variable).collect();
    let library = text(&Path::new(RINGWAY).with_file_name("libringway_preload.so"));
    let given = |name: &str, value: &str| if name == "LD_PRELOAD" { library.clone() } else { value.to_owned() };
    let variables: Vec<(&str, String)> = variables.iter().map(|(name, value)| (name.as_str(), given(name, value))).collect();
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("RINGWAY_STRICT", "1"));
    let group = group.to_string();
    let user = ["--reuid", "33", "--regid", "33", "--groups", &group].map(str::to_owned);
    let mut words = confine(&Value::Null);
    words.extend(user);
    words.extend(["--", "python3", "-c", PROGRAM].map(str::to_owned));
    let before = net.kernel_tcp(Server);
    assert!(!service.stderr().contains("cgroup"), "it sees all cgroups: {}", service.stderr());
    let mut program = pod.start("program", &words, &variables);
    net.wait_listening(Server, 4310, &mut program);
    assert_eq!(net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]), "33 1\n");
    assert_eq!(program.finish(DEADLINE).success().stdout, "served\n");
    net.assert_kernel_received(Server, &before, 0);
}

fn variable(pair: &Value) -> (String, String) {
    let text = |name: &str| pair[name].as_str().expect("a text").to_owned();
    (text("name"), text("value"))
}

#[test]
fn the_manifests_agree_with_each_other_and_with_the_unit() {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/ringway.service")).expect("the unit");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("its capabilities");
    let mut of_unit: Vec<String> = line.split(' ').map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
    of_unit.sort();
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/container/Dockerfile");
    let dockerfile = fs::read_to_string(dockerfile).expect("the image's description");
    for name in ["sidecar.yaml", "daemonset.yaml"] {
        let manifest = manifest(name);
        let pod = &manifest["spec"]["template"]["spec"];
        let service = container(pod, "ringway");
        let mut added = words(&service["securityContext"]["capabilities"]["add"]);
        added.sort();
        assert_eq!(added, of_unit, "{name}");
        assert_eq!(service["volumeMounts"][0]["mountPath"], "/run/ringway", "{name}");
        let hosts =
            pod["volumes"].as_array().expect("a list").iter().find(|volume| volume["name"] == "cgroups").expect("it is there");
        assert_eq!(hosts["hostPath"]["path"], "/sys/fs/cgroup", "{name}");
        assert_eq!(service["volumeMounts"][1]["name"], "cgroups", "{name}");
        let copy = words(&container(pod, "library")["command"]);
        assert_eq!(copy[1], "/usr/lib/ringway/libringway_preload.so", "{name}: where PREFIX=/usr puts it");
        for group in pod["securityContext"]["supplementalGroups"].as_array().into_iter().flatten() {
            assert!(dockerfile.contains(&format!("--gid {group} ringway")), "{name}");
        }
    }
}
