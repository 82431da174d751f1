//! exec, spawn, fork and what a process gives up: the environment of children, and what is passed to libc.

use super::told;
use crate::c::errno;
use crate::environment::{Environment, Kept, Room};
use crate::fake::{Bench, Libc, Lonely};
use crate::process;
use crate::reach::{self, Reach};
use crate::real::Strings;
use libc::{c_char, c_int, rlimit};
use ringway_posix::Settings;
use std::ffi::{CStr, CString};
use std::ptr;

/// A C array of these strings.
fn array(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

fn strings(words: &[&str]) -> Vec<CString> {
    words.iter().map(|word| CString::new(*word).expect("without NUL")).collect()
}

/// # Safety
/// An array that ends with null.
unsafe fn words(list: Strings) -> Vec<String> {
    // SAFETY: the caller's promise.
    let at = |index: usize| unsafe { *list.add(index) };
    // SAFETY: as above.
    (0..)
        .map(at)
        .take_while(|word| !word.is_null())
        .map(|word| unsafe { CStr::from_ptr(word) }.to_string_lossy().into())
        .collect()
}

fn kept(words: &[&str]) -> Kept {
    Kept::of(strings(words).iter().map(CString::as_c_str))
}

const KEPT: [&str; 3] = ["LD_PRELOAD=/lib/ringway.so:/lib/other.so", "RINGWAY_SOCKET=/run/s", "RINGWAY_GROUP=7"];

fn completed(given: &[&str]) -> Vec<String> {
    let (kept, given) = (kept(&KEPT), strings(given));
    let given = array(&given);
    // SAFETY: both outlive the answer.
    unsafe { words(Environment::with(&kept, given.as_ptr(), Reach::Reached, &mut Room::new()).as_ptr()) }
}

#[test]
fn a_child_gets_what_its_environment_lacks_and_keeps_what_the_program_says() {
    assert_eq!(completed(&[]), KEPT);
    assert_eq!(completed(&["PATH=/bin"]), ["PATH=/bin", KEPT[0], KEPT[1], KEPT[2]]);
    // A preload of the program's own is the program's decision (docs/isolation.md, Strict); an empty one, too.
    assert_eq!(completed(&["LD_PRELOAD=mine.so", "A=b"]), ["LD_PRELOAD=mine.so", "A=b", KEPT[1], KEPT[2]]);
    assert_eq!(completed(&["LD_PRELOAD="]), ["LD_PRELOAD=", KEPT[1], KEPT[2]]);
    // A longer name, a name without a value, a string without a name.
    let odd = ["LD_PRELOAD_X=1", "LD_PRELOAD", "=", ""];
    assert_eq!(completed(&odd), [&odd[..], &KEPT].concat());
    assert_eq!(completed(&KEPT), KEPT);
}

fn completed_for(reach: Reach, kept: &Kept, given: &[&str]) -> Vec<String> {
    let given = strings(given);
    let given = array(&given);
    // SAFETY: both outlive the answer.
    unsafe { words(Environment::with(kept, given.as_ptr(), reach, &mut Room::new()).as_ptr()) }
}

fn completed_without(kept: &Kept, given: &[&str]) -> Vec<String> {
    completed_for(Reach::Repelled, kept, given)
}

/// Another library could open sockets in it.
#[test]
fn a_program_without_use_for_the_library_is_started_without_it_where_it_is_alone() {
    const LIBRARY: &str = "LD_PRELOAD=/usr/lib/ringway/libringway_preload.so";
    let alone = kept(&[LIBRARY, KEPT[1]]);
    assert_eq!(completed_for(Reach::Useless, &alone, &[]), [KEPT[1]]);
    assert_eq!(completed_for(Reach::Useless, &alone, &["A=b", LIBRARY]), ["A=b", "LD_PRELOAD=", KEPT[1]]);
    let others = format!("{LIBRARY}:/lib/a.so");
    assert_eq!(completed_for(Reach::Useless, &alone, &[&others]), [&others, KEPT[1]]);
    assert_eq!(completed_for(Reach::Useless, &alone, &["LD_PRELOAD="]), ["LD_PRELOAD=", KEPT[1]]);
    let beside = kept(&[&others]);
    assert_eq!(completed_for(Reach::Useless, &beside, &[]), [&*others]);
}

#[test]
fn a_program_of_another_libc_is_started_without_the_library() {
    const LIBRARY: &str = "LD_PRELOAD=/usr/lib/ringway/libringway_preload.so";
    let kept = kept(&[LIBRARY, KEPT[1]]);
    assert_eq!(completed_without(&kept, &[]), [KEPT[1]]);
    let others = format!("{LIBRARY}:/lib/a.so");
    assert_eq!(completed_without(&kept, &["A=b", &others]), ["A=b", "LD_PRELOAD=/lib/a.so", KEPT[1]]);
    for (given, passed) in [
        (LIBRARY, "LD_PRELOAD="),
        ("LD_PRELOAD=libringway_preload.so", "LD_PRELOAD="),
        ("LD_PRELOAD=a.so /x/libringway_preload.so:b.so", "LD_PRELOAD=a.so:b.so"),
        ("LD_PRELOAD=/x/libringway_preload.so.old", "LD_PRELOAD=/x/libringway_preload.so.old"),
        ("LD_PRELOAD_X=/x/libringway_preload.so", "LD_PRELOAD_X=/x/libringway_preload.so"),
    ] {
        assert_eq!(completed_without(&kept, &[given]), [passed, KEPT[1]]);
    }
}

#[test]
fn a_sanitizer_is_told_that_its_library_does_not_come_first() {
    const TOLD: &str = "ASAN_OPTIONS=verify_asan_link_order=0";
    let kept = kept(&[TOLD]);
    let completed = |given: &[&str]| {
        let given = strings(given);
        let given = array(&given);
        // SAFETY: both outlive the answer.
        unsafe { words(Environment::with(&kept, given.as_ptr(), Reach::Reached, &mut Room::new()).as_ptr()) }
    };
    assert_eq!(completed(&["A=b"]), ["A=b", TOLD]);
    assert_eq!(completed(&[TOLD]), [TOLD]);
    assert_eq!(
        completed(&["ASAN_OPTIONS=detect_leaks=0", "B=1"]),
        ["ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0", "B=1"]
    );
    assert_eq!(completed(&["ASAN_OPTIONS=verify_asan_link_order=1"]), ["ASAN_OPTIONS=verify_asan_link_order=1"]);
    assert_eq!(completed_without(&kept, &["ASAN_OPTIONS=x"]), ["ASAN_OPTIONS=x"]);
}

#[test]
fn no_environment_at_all_is_an_empty_one() {
    let (kept, outside) = (kept(&KEPT), kept(&[]));
    // SAFETY: `kept` outlives the answer; null is allowed.
    unsafe {
        assert_eq!(words(Environment::with(&kept, ptr::null(), Reach::Reached, &mut Room::new()).as_ptr()), KEPT);
        // Outside of Ringway the array is passed as it is, null too.
        assert_eq!(Environment::with(&outside, ptr::null(), Reach::Reached, &mut Room::new()).as_ptr(), ptr::null());
    }
}

#[test]
fn what_is_kept_is_a_copy_of_the_first_value_of_each_name() {
    let long = format!("LD_PRELOAD=/{}.so", "x".repeat(4_000));
    let own =
        ["PATH=/bin", "RINGWAY_SOCKET=/run/first", "RINGWAY_SOCKET=/run/second", "RINGWAY_STRICTER=1", &long, "RINGWAY_LOG="];
    let kept = kept(&own);
    assert_eq!(kept.value("RINGWAY_SOCKET"), Some(b"/run/first".as_slice()));
    assert_eq!(kept.value("LD_PRELOAD"), long.strip_prefix("LD_PRELOAD=").map(str::as_bytes));
    assert_eq!((kept.value("RINGWAY_LOG"), kept.value("RINGWAY_STRICT"), kept.value("PATH")), (Some(b"".as_slice()), None, None));
    // SAFETY: `kept` outlives the answer.
    let mut passed = unsafe { words(Environment::with(&kept, ptr::null(), Reach::Reached, &mut Room::new()).as_ptr()) };
    passed.sort();
    assert_eq!(passed, [long.as_str(), "RINGWAY_LOG=", "RINGWAY_SOCKET=/run/first"]);
}

#[test]
fn a_listed_program_gets_its_service_and_a_group_of_its_own() {
    let mut groups = Vec::new();
    for _ in 0..2 {
        let mut listed = kept(&["RINGWAY_LOG=fallback"]);
        assert_eq!(listed.add_listed(b"red"), Some(()));
        assert_eq!((listed.value("RINGWAY_SOCKET"), listed.value("RINGWAY_LOG")), (Some(&b"red"[..]), Some(&b"fallback"[..])));
        let group = listed.value("RINGWAY_GROUP").expect("it was added").to_vec();
        assert!(group.len() == 32 && group.iter().all(u8::is_ascii_hexdigit), "{group:?}");
        groups.push(group);
    }
    assert_ne!(groups[0], groups[1]);
    let mut named = kept(&["RINGWAY_GROUP=7"]);
    assert_eq!((named.add_listed(b"red"), named.value("RINGWAY_GROUP")), (Some(()), Some(&b"7"[..])));
    assert_eq!(kept(&[]).add_listed(&[b'x'; 4_000]), None, "there is no room");
}

#[test]
fn the_look_at_a_program_leaves_errno_alone() {
    crate::set_errno(libc::EXFULL);
    // SAFETY: C strings.
    unsafe {
        let found = [reach::found(c"sh".as_ptr()), reach::found(c"no-such-program".as_ptr())];
        assert_eq!(found, [Reach::Reached; 2]);
        assert_eq!(reach::found(c"sleep".as_ptr()), Reach::Useless);
        assert_eq!(reach::at(libc::AT_FDCWD, c"/no/such/program".as_ptr()), Reach::Reached);
    }
    assert_eq!(errno().0, libc::EXFULL);
}

#[test]
fn a_huge_environment_is_passed_whole() {
    let many: Vec<String> = (0..20_000).map(|number| format!("V{number}={}", "x".repeat(50))).collect();
    let given: Vec<&str> = many.iter().map(String::as_str).collect();
    let completed = completed(&given);
    assert_eq!(completed.len(), 20_003);
    assert!(completed.iter().zip(&many).all(|(one, other)| one == other));
    assert_eq!(completed[20_000..], KEPT);
}

/// What each form of exec passes to libc: path, arguments and environment.
#[test]
fn each_form_of_exec_passes_its_arguments_and_errno() {
    let _room = Lonely::new(Settings::default());
    let libc = Libc::new();
    let (arguments, environment) = (strings(&["a", "b"]), strings(&["E=1"]));
    let (arguments, environment) = (array(&arguments), array(&environment));
    let path = c"/nowhere/program".as_ptr();
    // SAFETY: arrays of this function's own; the functions of libc are not called.
    unsafe {
        for (name, place) in
            [("execve", 2), ("execvpe", 2), ("fexecve", 2), ("execveat", 3), ("posix_spawn", 5), ("posix_spawnp", 5)]
        {
            libc.refuses(name, libc::ENOEXEC);
            let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
            let mut child = -7;
            let answer = match name {
                "execve" => process::execve(path, arguments, environment),
                "execvpe" => process::execvpe(path, arguments, environment),
                "fexecve" => process::fexecve(-1, arguments, environment),
                "execveat" => process::execveat(libc::AT_FDCWD, path, arguments, environment, 0),
                "posix_spawn" => process::posix_spawn(&raw mut child, path, ptr::null(), ptr::null(), arguments, environment),
                _ => process::posix_spawnp(&raw mut child, path, ptr::null(), ptr::null(), arguments, environment),
            };
            assert_eq!((answer, errno().0, child), (-1, libc::ENOEXEC, -7), "{name}");
            let call = libc.calls(name).pop().expect("it was called");
            assert_eq!((call[place - 1], words(call[place] as Strings)), (arguments as usize, vec!["E=1".to_string()]), "{name}");
        }
    }
}

#[test]
fn a_spawned_childs_number_is_told_also_to_a_program_that_does_not_ask() {
    let bench = Bench::new();
    let fd = bench.connection();
    let arguments = array(&[]);
    bench.libc.does("posix_spawn", |arguments| {
        // SAFETY: the library's own room for a number.
        unsafe { *(arguments[0] as *mut c_int) = 4242 };
        0
    });
    let mut child = 0;
    let path = c"/nowhere/program".as_ptr();
    // SAFETY: the function of libc is not called.
    unsafe {
        let spawn = |child| process::posix_spawn(child, path, ptr::null(), ptr::null(), arguments.as_ptr(), ptr::null());
        assert_eq!((spawn(&raw mut child), child), (0, 4242));
        assert_eq!(spawn(ptr::null_mut()), 0);
    }
    assert!(bench.is_ours(fd));
}

unsafe extern "C" {
    fn execl(path: *const c_char, argument: *const c_char, ...) -> c_int;
    fn execlp(file: *const c_char, argument: *const c_char, ...) -> c_int;
    fn execle(path: *const c_char, argument: *const c_char, ...) -> c_int;
}

#[test]
#[cfg(target_arch = "x86_64")]
fn arguments_one_by_one_become_a_list_however_many_there_are() {
    let libc = Libc::new();
    let all: Vec<String> = (0..9).map(|number| number.to_string()).collect();
    let c: Vec<CString> = strings(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let c: Vec<*const c_char> = c.iter().map(|string| string.as_ptr()).collect();
    let null = ptr::null::<c_char>();
    let environment = strings(&["E=1"]);
    let environment = array(&environment);
    let given = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    for name in ["execve", "execvpe"] {
        let given = given.clone();
        libc.does(name, move |arguments| {
            // SAFETY: arrays that end with null.
            given.borrow_mut().push(unsafe { (words(arguments[1] as Strings), words(arguments[2] as Strings)) });
            crate::set_errno(libc::ENOENT);
            -1
        });
    }
    // SAFETY: each list ends with null; the functions of libc are not called.
    unsafe {
        assert_eq!(execl(c"/p".as_ptr(), c[0], null), -1);
        assert_eq!(execl(c"/p".as_ptr(), c[0], c[1], c[2], c[3], null), -1);
        assert_eq!(execlp(c"p".as_ptr(), c[0], c[1], c[2], c[3], c[4], null), -1);
        assert_eq!(execlp(c"p".as_ptr(), c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], null), -1);
        assert_eq!(execle(c"/p".as_ptr(), c[0], c[1], c[2], c[3], null, environment.as_ptr()), -1);
        assert_eq!(execle(c"/p".as_ptr(), c[0], c[1], c[2], c[3], c[4], c[5], null, environment.as_ptr()), -1);
        assert_eq!(execl(c"/p".as_ptr(), null), -1);
    }
    assert_eq!(errno().0, libc::ENOENT);
    let given = given.take();
    let counts: Vec<usize> = given.iter().map(|(arguments, _)| arguments.len()).collect();
    assert_eq!(counts, [1, 4, 5, 9, 4, 6, 0]);
    assert!(given.iter().all(|(arguments, _)| arguments[..] == all[..arguments.len()]));
    assert!(given[4..6].iter().all(|(_, environment)| environment[..] == ["E=1"]));
}

#[test]
fn in_strict_mode_no_program_is_started_that_the_library_cannot_reach() {
    let _room = Lonely::new(Settings { strict: true, ..Settings::default() });
    let libc = Libc::new();
    let file = std::env::temp_dir().join(format!("ringway-static-{}", std::process::id()));
    // An ELF header of this machine without a dynamic linker.
    let mut header = vec![0_u8; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    std::fs::write(&file, &header).expect("the folder can be written");
    let path = CString::new(file.to_str().expect("a name in UTF-8")).expect("without NUL");
    let none = array(&[]);
    for name in ["execve", "execvpe", "execveat", "posix_spawn", "posix_spawnp"] {
        libc.answers(name, 0);
    }
    // SAFETY: arrays of this function's own; the functions of libc are not called.
    let answers = unsafe {
        let (path, none, null) = (path.as_ptr(), none.as_ptr(), ptr::null::<libc::c_void>());
        [
            told(process::execve(path, none, none) as isize),
            told(process::execvpe(path, none, none) as isize),
            told(process::execveat(libc::AT_FDCWD, path, none, none, 0) as isize),
            Err(process::posix_spawn(ptr::null_mut(), path, null, null, none, none)),
            Err(process::posix_spawnp(ptr::null_mut(), path, null, null, none, none)),
        ]
    };
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(answers, [Err(libc::ENETDOWN); 5]);
    let names = libc.all_calls();
    assert!(names.iter().all(|(name, _)| !name.starts_with("exec") && !name.starts_with("posix_spawn")), "{names:?}");
}

/// A failed fork leaves the gate open; the child of one that works is told to the region.
#[test]
fn fork_that_fails_blocks_nothing() {
    let bench = Bench::new();
    let fd = bench.connection();
    bench.libc.refuses("fork", libc::EAGAIN);
    // SAFETY: the function of libc is not called.
    assert_eq!((unsafe { process::fork() }, errno().0), (-1, libc::EAGAIN));
    bench.libc.answers("fork", 4243);
    // SAFETY: as above.
    assert_eq!(unsafe { process::fork() }, 4243);
    bench.libc.answers("close", 0);
    // SAFETY: as above. It passes the gate, which a fork that is under way closes.
    assert_eq!(unsafe { crate::files::close(fd) }, 0);
}

#[test]
fn a_descriptor_limit_too_low_for_the_library_is_raised_only_under_ringway() {
    let libc = Libc::new();
    let seen = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
    let told = seen.clone();
    libc.does("setrlimit", move |arguments| {
        // SAFETY: a limit of the caller's.
        let limit = unsafe { *(arguments[1] as *const rlimit) };
        told.set((limit.rlim_cur, limit.rlim_max));
        0
    });
    let low = rlimit { rlim_cur: 5, rlim_max: 7 };
    // SAFETY: a local.
    unsafe {
        assert_eq!((process::setrlimit(libc::RLIMIT_NOFILE, &raw const low), seen.get()), (0, (5, 7)));
        let _room = Lonely::new(Settings::default());
        assert_eq!((process::setrlimit(libc::RLIMIT_NOFILE, &raw const low), seen.get()), (0, (16, 16)));
        assert_eq!((process::setrlimit(libc::RLIMIT_CORE, &raw const low), seen.get()), (0, (5, 7)));
    }
}

/// Dovecot's processes could not attach, and its clients waited for ever.
#[test]
fn a_limit_of_the_address_space_leaves_room_for_the_services() {
    let libc = Libc::new();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let told = seen.clone();
    let has_more = std::rc::Rc::new(std::cell::Cell::new(true));
    let allows = has_more.clone();
    libc.does("setrlimit", move |arguments| {
        // SAFETY: a limit of the caller's.
        let limit = unsafe { *(arguments[1] as *const rlimit) };
        told.borrow_mut().push((limit.rlim_cur, limit.rlim_max));
        if allows.get() || limit.rlim_cur <= 256 { 0 } else { -1 }
    });
    let ask = |rlim_cur, rlim_max| {
        let limit = rlimit { rlim_cur, rlim_max };
        // SAFETY: a local.
        let answer = unsafe { process::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        (answer, std::mem::take(&mut *seen.borrow_mut()))
    };
    const ROOM: u64 = 4 << 30;
    assert_eq!(ask(256, 256), (0, vec![(256, 256)]), "not under Ringway");
    let _room = Lonely::new(Settings::default());
    assert_eq!(ask(256, 512), (0, vec![(256 + ROOM, 512 + ROOM)]));
    assert_eq!(ask(256, libc::RLIM_INFINITY), (0, vec![(256 + ROOM, libc::RLIM_INFINITY)]));
    assert_eq!(ask(libc::RLIM_INFINITY, libc::RLIM_INFINITY), (0, vec![(libc::RLIM_INFINITY, libc::RLIM_INFINITY)]));
    has_more.set(false);
    assert_eq!(ask(256, 256), (0, vec![(256 + ROOM, 256 + ROOM), (256, 256)]), "it may not raise what it has");
}
