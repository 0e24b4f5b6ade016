//! Puts the shader templates beside the crate without comments and indentation, as they go into the
//! binary: nobody reads them there, and pages download them.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=shaders");
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    strip(Path::new("shaders"), &out.join("shaders"))
}

fn strip(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            strip(&path, &to)?;
            continue;
        }
        let source = fs::read_to_string(&path)?;
        let lines = source.lines().map(str::trim);
        let lines: Vec<&str> =
            lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect();
        fs::write(to, lines.join("\n"))?;
    }
    Ok(())
}
