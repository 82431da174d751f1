//! cargo-fuzz entry point of the target of this name; its body is in `fuzz/targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ringway_fuzz_targets::run("handover", bytes));
