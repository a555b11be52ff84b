//! How the program is linked.
#![allow(clippy::print_stdout)]

/// Renders of a few milliseconds are half start-up. A program that may lie anywhere in memory has
/// tens of thousands of addresses to put right at every start, a tenth of such a render; one with a
/// fixed place has none. The libraries it loads, its stack and its heap stay where chance puts them.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    let is_static = std::env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("PROFILE", "release")
        && !is_static
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
