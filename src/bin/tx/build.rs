//! Tells the binary which commit it was built from: `TX_COMMIT`, empty outside the project's git repository.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src/bin/tx/build.rs");
    println!("cargo:rustc-env=TX_COMMIT={}", commit().unwrap_or_default());
}

/// The short hash of HEAD; `None` without git, a repository or a first commit.
fn commit() -> Option<String> {
    // A package unpacked inside another repository must not name that repository's commit.
    if !Path::new(".git").exists() {
        return None;
    }
    watch("HEAD");
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"])
        && !watch(&branch)
    {
        // The branch is packed: its own file appears with the next commit.
        watch("packed-refs");
        watch("refs/heads");
    }
    git(&["rev-parse", "--short", "HEAD"])
}

/// Builds again when `name` in the git folder changes; false if there is none (cargo would always build).
fn watch(name: &str) -> bool {
    // Git is asked for the place, since a worktree keeps HEAD and branches in two folders, both elsewhere.
    let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
    if let Some(path) = &path {
        println!("cargo:rerun-if-changed={path}");
    }
    path.is_some()
}

/// What git prints, if it succeeds.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
