//! Runs every transcript of README.md and compares what comes out with what is printed there.
//!
//! A transcript is a fenced block whose info string is exactly `console`; all others (`sh`, `text`,
//! `console,ignore`) are left alone. In it, a line `$ command` is run by `sh`, with the built `tx` first in
//! the path; a command that ends in `\` goes on in the next line (after `> `, if that is there). The lines
//! up to the next `$ ` are what it must print, stdout and stderr together as in a terminal (standard input
//! is empty); blank lines at the end do not count. `cargo run --release -- ` stands for `tx `, so that the
//! first command of a new user is checked too.
//!
//! - a line `...` stands for any number of lines, `[..]` in a line for any text;
//! - a last line `[2]` says that the command exits with 2; without it, it must exit with 0;
//! - the commands of a section (`#` or `##` heading) share one folder, which starts with a copy of
//!   `assets/`; nothing else is kept from one command to the next, neither `cd` nor variables.
//!
//! `TX_BLESS=1 cargo test readme` writes what was printed into README.md; `...` and `[..]` stay where they
//! fit.

use crate::browser::Page;
use crate::common::{Files, stdout, tx};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn transcripts_of_the_readme_hold() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let (text, faults) = check(&std::fs::read_to_string(&path).unwrap());
    if std::env::var_os("TX_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    } else {
        assert!(faults.is_empty(), "\n{faults}\nIf this is right: TX_BLESS=1 cargo test readme\n");
    }
}

/// The pictures are there and shown. `TX_BLESS=1` takes them again, with the model inside tx; pages need a browser.
#[test]
fn pictures_of_the_readme_are_there() {
    let at = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let readme = std::fs::read_to_string(at("README.md")).unwrap();
    for (name, args) in [
        ("attention", ["inspect-attention", "My father bought a new car yesterday.", "--html"]),
        ("beam", ["beam", "The children are playing in the garden.", "--html"]),
        ("positions", ["inspect-attention", "--positions", "--png"]),
    ] {
        let picture = format!("assets/pictures/{name}.png");
        assert!(readme.contains(&format!("]({picture})")), "{picture} is not shown");
        if std::env::var_os("TX_BLESS").is_some() {
            let files = Files::new();
            let file = files.path(&args[2].replace("--", "made."));
            stdout(&tx(&[&args[..], &[&file]].concat()).env_remove("TX_MODEL").output().unwrap());
            let png = match args[2] {
                "--png" => Some(std::fs::read(&file).unwrap()),
                _ => Page::open(&file).map(|page| page.screenshot(name)),
            };
            png.into_iter().for_each(|png| std::fs::write(at(&picture), png).unwrap());
        }
        assert!(std::fs::read(at(&picture)).unwrap().starts_with(b"\x89PNG"), "{picture}");
    }
}

/// The text with what its commands print now, and the differences, empty if there are none.
fn check(text: &str) -> (String, String) {
    let (mut new, mut faults) = (Vec::new(), String::new());
    let mut folder = None; // of the section, made when needed
    let mut fence = None; // the info string of the block we are in
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        new.push(line.to_string());
        match (fence, line.strip_prefix("```"), line.strip_prefix("$ ")) {
            (None, Some(info), _) => fence = Some(info),
            (Some(_), Some(_), _) => fence = None,
            (None, ..) if line.starts_with("# ") || line.starts_with("## ") => folder = None,
            (Some("console"), _, Some(start)) => {
                let mut command = start.to_string();
                while command.ends_with('\\') {
                    let (_, more) = lines.next().expect("a line after the backslash");
                    new.push(more.to_string());
                    command = command + "\n" + more.strip_prefix("> ").unwrap_or(more);
                }
                let mut want = Vec::new();
                while let Some((_, line)) =
                    lines.next_if(|(_, l)| !l.starts_with("$ ") && !l.starts_with("```"))
                {
                    want.push(line);
                }
                let blank = want.iter().rev().take_while(|line| line.is_empty()).count();
                want.truncate(want.len() - blank);
                let got = run(&command, folder.get_or_insert_with(sandbox).path());
                let diff = diff(&want, &got.lines().collect::<Vec<_>>());
                if diff.iter().any(|(mark, _)| *mark != ' ') {
                    faults += &format!("README.md:{}: $ {command}\n", number + 1);
                    diff.iter().for_each(|(mark, line)| faults += &format!("  {mark} {line}\n"));
                }
                new.extend(diff.iter().filter(|(mark, _)| *mark != '-').map(|(_, line)| line.to_string()));
                new.extend(std::iter::repeat_n(String::new(), blank));
            }
            (Some("console"), ..) => panic!("README.md:{}: a transcript must start with `$ `", number + 1),
            _ => {}
        }
    }
    (new.join("\n") + "\n", faults)
}

/// A new folder with a copy of `assets/` in it.
fn sandbox() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    assert!(Command::new("cp").arg("-R").args([&assets, folder.path()]).status().unwrap().success());
    folder
}

/// All that the command prints, and `[N]` in a last line if it exits with another code than 0.
fn run(command: &str, folder: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_tx")).parent().unwrap();
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 2>&1\n{}", command.replace("cargo run --release -- ", "tx ")))
        .current_dir(folder)
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .envs([("HOME", folder.as_os_str()), ("COLUMNS", "100".as_ref()), ("LC_ALL", "C".as_ref())])
        .env_remove("TX_MODEL")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text: String =
        String::from_utf8_lossy(&output.stdout).lines().map(|l| format!("{}\n", l.trim_end())).collect();
    match output.status.code() {
        Some(0) => text,
        code => text + &format!("[{}]\n", code.map_or("killed".to_string(), |code| code.to_string())),
    }
}

/// The cheapest way from `want` to `got`: each line with ' ' (as wanted), '-' (missing) or '+' (not wanted).
fn diff<'a>(want: &[&'a str], got: &[&'a str]) -> Vec<(char, &'a str)> {
    let (n, m) = (want.len(), got.len());
    // cost[i][j]: marked lines from want[i..] to got[j..]. A line `...` takes up lines of `got` at no cost.
    let mut cost = vec![vec![0; m + 1]; n + 1];
    for (i, j) in (0..=n).rev().flat_map(|i| (0..=m).rev().map(move |j| (i, j))) {
        let step = usize::from(i == n || want[i] != "...");
        let drop = if i < n { step + cost[i + 1][j] } else { usize::MAX };
        let add = if j < m { step + cost[i][j + 1] } else { usize::MAX };
        let keep = if i < n && j < m && fits(want[i], got[j]) { cost[i + 1][j + 1] } else { usize::MAX };
        cost[i][j] = if i == n && j == m { 0 } else { drop.min(add).min(keep) };
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < n || j < m {
        let wild = i < n && want[i] == "...";
        if i < n && j < m && !wild && fits(want[i], got[j]) {
            lines.push((' ', want[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < n && cost[i][j] == usize::from(!wild) + cost[i + 1][j] {
            lines.push((if wild { ' ' } else { '-' }, want[i]));
            i += 1;
        } else {
            lines.extend((!wild).then(|| ('+', got[j])));
            j += 1;
        }
    }
    lines
}

/// Whether a line is as wanted, where `[..]` in `want` stands for any text.
fn fits(want: &str, line: &str) -> bool {
    let Some((head, tail)) = want.split_once("[..]") else { return want.trim_end() == line };
    line.strip_prefix(head)
        .is_some_and(|rest| (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|r| fits(tail, r))))
}

#[test]
fn masks_stand_for_any_lines_and_any_text() {
    let marks = |want: &str, got: &str| -> String {
        let (want, got): (Vec<_>, Vec<_>) = (want.lines().collect(), got.lines().collect());
        diff(&want, &got).iter().map(|(mark, _)| *mark).collect()
    };
    assert_eq!(marks("a\nb", "a\nb"), "  ");
    assert_eq!(marks("a\nb", "a\nc"), " -+");
    assert_eq!(marks("a\n...\nz", "a\nz"), "   ");
    assert_eq!(marks("a\n...\nz", "a\nb\nc\nz"), "   ");
    assert_eq!(marks("...\nz", "z\nb"), "  +");
    assert_eq!(marks("took [..] s, [..]", "took 1.25 s, fine"), " ");
    assert_eq!(marks("took [..] s", "took 1.25 ms"), "-+");
    assert_eq!(marks("", "a"), "+");
    assert_eq!(marks("a", ""), "-");
}
