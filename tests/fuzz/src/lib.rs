//! What the fuzz targets share: model directories of the goldens in which one file is the fuzzer's, a limit of memory, and mutations
//! that leave a container whole.

pub mod archive;
pub mod guard;
pub mod header;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tx::candle_core::Device;
use tx::checkpoint::{Bytes, Checkpoint};
use tx::text::Tokenizer;
use tx::translate::{Options, Translator};

/// Words, spaces, characters without a piece, marks of languages and of special pieces, and more than one line should have.
const TEXTS: [&str; 6] = [
    "a b c",
    " The  house\tis ｆｕｌｌ. ",
    ">>de<< x",
    "</s><pad> <0x41> ▁",
    "e\u{301} 漢字 🙂\u{200d}\u{0} \u{fffd}",
    "",
];
/// A path for messages.
const FOLDER: &str = "some/model";

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The directory `name` of the goldens.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden").join(name)
}

/// All files of the model `name` of the goldens, read once.
pub fn files(name: &str) -> Files {
    let entries = std::fs::read_dir(golden(name)).expect("the goldens are beside this project");
    let entries = entries.map(|entry| entry.expect("a file").path());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a readable file"))
    };
    entries.map(read).collect()
}

/// Opens the model `golden` with `changed` in the place of its files of those names, and translates with it if that succeeds.
pub fn open(golden: &'static OnceLock<Files>, model: &str, changed: &[(&str, &[u8])]) {
    let files = golden.get_or_init(|| files(model));
    let input = changed.iter().map(|(_, bytes)| bytes.len()).sum();
    guard::guarded(input, || {
        let get = |name: &str| {
            let ours = changed.iter().find(|(changed, _)| *changed == name).map(|(_, bytes)| *bytes);
            Ok(ours.or(files.get(name).map(Vec::as_slice)).map(|bytes| Box::new(bytes) as Bytes))
        };
        translate(Checkpoint::from_files(Path::new(FOLDER), &Device::Cpu, get), FOLDER);
    });
}

/// What is refused is named; what is opened translates.
pub fn translate(opened: tx::Result<Checkpoint>, place: &str) {
    let checkpoint = match opened {
        Ok(checkpoint) => checkpoint,
        Err(error) => return assert!(error.to_string().contains(place), "no place in: {error}"),
    };
    let Ok(translator) = Translator::new(checkpoint, &Device::Cpu, None) else { return };
    let lines = (1..).zip(&TEXTS[..2]).map(|(number, text)| (number, text.to_string())).collect();
    let options = Options { max_length: Some(4), beam_size: Some(2), ..Options::default() };
    _ = translator.translate(lines, &options);
}

/// Cuts texts with what was opened, and puts pieces together.
pub fn tokenize(opened: tx::Result<Tokenizer>, place: &str) {
    let tokenizer = match opened {
        Ok(tokenizer) => tokenizer,
        Err(error) => return assert!(error.to_string().contains(place), "no place in: {error}"),
    };
    for text in TEXTS {
        if let Ok(ids) = tokenizer.encode(text) {
            _ = tokenizer.decode(&ids);
            _ = tokenizer.words(&ids);
        }
        _ = tokenizer.surfaces(text);
    }
    let last = tokenizer.vocab_size() as u32;
    for ids in [vec![0, 1, 2, 3, 4, 5, 6, 7], (0..last.min(300)).rev().collect(), vec![last, u32::MAX]] {
        _ = tokenizer.decode(&ids);
    }
}
