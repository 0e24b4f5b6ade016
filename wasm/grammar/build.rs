//! Room for the recursion of parsers and compilers: 4 MiB of stack instead of 1 MiB.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == "wasm32") {
        println!("cargo::rustc-link-arg=-zstack-size=4194304");
    }
}
