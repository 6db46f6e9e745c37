//! Reading text line by line: files and standard input, plain or compressed, all through [`Lines`].
//!
//! Only a line feed ends a line (other line breaks of Unicode are white space inside one), one carriage
//! return before it is dropped, and a last line needs none. A line is delivered as soon as its line feed
//! has arrived. gzip and Zstandard are known by their first bytes. A byte order mark at the start is
//! dropped. Bytes that are not UTF-8 become U+FFFD, and the line says so; UTF-16 and other binary forms
//! are refused by name.

use super::hashing::Digest;
use super::zstd::ZstdFrames;
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

const GZIP: &[u8] = &[0x1F, 0x8B];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
/// Files of the parallel `pzstd` start with this frame.
const ZSTD_SKIPPABLE: &[u8] = &[0x50, 0x2A, 0x4D, 0x18];
const BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

/// First bytes of what is not text in UTF-8, and what to do with it.
const REFUSED: [(&[u8], &str); 6] = [
    (&[0xFF, 0xFE], "UTF-16 text (or UTF-32); convert it with `iconv -f UTF-16 -t UTF-8`"),
    (&[0xFE, 0xFF], "UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xFD7zXZ\0", "xz data; decompress it first, or use gzip or Zstandard"),
    (b"BZh91AY&SY", "bzip2 data; decompress it first, or use gzip or Zstandard"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"),
];

/// One line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Position in the input, from 1.
    pub number: usize,
    /// The line without its line feed.
    pub text: String,
    /// Whether bytes that are not UTF-8 were replaced by U+FFFD.
    pub damaged: bool,
    /// Whether a carriage return before the line feed was dropped.
    pub ends_in_cr: bool,
    /// Whether a byte order mark before it was dropped.
    pub had_bom: bool,
}

/// The lines of a file or stream.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    name: PathBuf,
    number: usize,
    ended: bool,
}

impl Lines {
    /// The lines of the file at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::of_file(File::open(path).map_err(|e| Error::io(path, e))?, path)
    }

    /// The lines of the file at `path`, and its hash once the last of them was read.
    pub fn open_hashed(path: &Path) -> Result<(Self, Digest)> {
        let digest = Digest::default();
        let file = digest.reader(File::open(path).map_err(|e| Error::io(path, e))?);
        Ok((Self::of_file(file, path)?, digest))
    }

    fn of_file(file: impl Read + Send + 'static, path: &Path) -> Result<Self> {
        let (reader, packed) =
            unpack(BufReader::with_capacity(1 << 16, file)).map_err(|e| Error::io(path, e))?;
        let extension = path.extension().unwrap_or_default();
        if !packed && (extension == "gz" || extension == "zst") {
            let what = format!("named .{}, but its content is not compressed", extension.display());
            return Err(Error::format(path, format!("{what}; rename the file, or fetch it again")));
        }
        Ok(Self::from_reader(reader, path))
    }

    /// The lines of a stream such as standard input; `name` is for messages. Waits for the first byte.
    pub fn new(stream: impl Read + Send + 'static, name: impl AsRef<Path>) -> Result<Self> {
        let name = name.as_ref();
        let (reader, _) =
            unpack(BufReader::with_capacity(1 << 16, stream)).map_err(|e| Error::io(name, e))?;
        Ok(Self::from_reader(reader, name))
    }

    fn from_reader(reader: Box<dyn BufRead + Send>, name: &Path) -> Self {
        Lines { reader, name: name.to_path_buf(), number: 0, ended: false }
    }

    fn read(&mut self) -> Result<Option<Line>> {
        let mut bytes = vec![];
        let read = self.reader.read_until(b'\n', &mut bytes).map_err(|e| Error::io(&self.name, e))?;
        self.number += 1;
        let (mut had_bom, mut ends_in_cr) = (false, false);
        if self.number == 1 {
            if let Some(what) = refused(&bytes) {
                return Err(Error::format(&self.name, format!("expected text in UTF-8, found {what}")));
            }
            if bytes.starts_with(BOM) {
                bytes.drain(..BOM.len());
                had_bom = true;
            }
        }
        if read == 0 || bytes.is_empty() {
            return Ok(None);
        }
        if bytes.ends_with(b"\n") {
            bytes.pop();
            ends_in_cr = bytes.ends_with(b"\r");
            if ends_in_cr {
                bytes.pop();
            }
        }
        let (text, damaged) = match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(e) => (String::from_utf8_lossy(e.as_bytes()).into_owned(), true),
        };
        Ok(Some(Line { number: self.number, text, damaged, ends_in_cr, had_bom }))
    }
}

impl Iterator for Lines {
    type Item = Result<Line>;

    /// After the first error there are no more lines.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let line = self.read().transpose();
        self.ended = !matches!(line, Some(Ok(_)));
        line
    }
}

/// Decompresses if the first bytes say so; reads no further than they stay undecided, so that a short line
/// is not waited past.
fn unpack(mut stream: impl BufRead + Send + 'static) -> io::Result<(Box<dyn BufRead + Send>, bool)> {
    let magic = [GZIP, ZSTD, ZSTD_SKIPPABLE];
    let mut head = vec![];
    while magic.iter().any(|m| m.len() > head.len() && m.starts_with(&head)) {
        if stream.by_ref().take(1).read_to_end(&mut head)? == 0 {
            break;
        }
    }
    let kind = magic.iter().position(|m| head == **m);
    let stream = Cursor::new(head).chain(stream);
    Ok(match kind {
        Some(0) => (Box::new(BufReader::new(MultiGzDecoder::new(stream))), true),
        Some(_) => (Box::new(BufReader::new(ZstdFrames::new(stream))), true),
        None => (Box::new(stream), false),
    })
}

/// What the first line shows the input to be, if not text.
fn refused(line: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = REFUSED.iter().find(|(magic, _)| line.starts_with(magic)) {
        return Some(what);
    }
    // UTF-16 without a mark: every other byte of a Latin text is zero.
    let zeros = line.iter().take(1000).filter(|&&byte| byte == 0).count();
    (zeros * 3 > line.len().min(1000)).then_some(REFUSED[1].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc;

    fn lines(bytes: &[u8]) -> Vec<String> {
        Lines::new(Cursor::new(bytes.to_vec()), "input").unwrap().map(|line| line.unwrap().text).collect()
    }

    fn error(bytes: &[u8]) -> String {
        Lines::new(Cursor::new(bytes.to_vec()), "input")
            .unwrap()
            .find_map(|line| line.err())
            .unwrap()
            .to_string()
    }

    /// How many lines there are.
    #[test]
    fn counting() {
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines(b"\n"), [""]);
        assert_eq!(lines(b"a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(lines(b"a\nb"), ["a", "b"]);
        assert_eq!(lines(b"a\n\n"), ["a", ""]);
    }

    /// One carriage return before the line feed goes, others stay.
    #[test]
    fn carriage_returns() {
        assert_eq!(lines(b"a\r\nb\rc\r\r\n\r\nd\r"), ["a", "b\rc\r", "", "d\r"]);
    }

    /// No other character ends a line.
    #[test]
    fn unicode_line_breaks() {
        let breaks = ["\u{2028}", "\u{2029}", "\u{85}", "\u{B}", "\u{C}", "\u{1C}", "\u{1E}"];
        let text: String = breaks.iter().map(|b| format!("before{b}after\n")).collect();
        assert_eq!(lines(text.as_bytes()), breaks.map(|b| format!("before{b}after")));
    }

    /// Only a mark at the very start is one.
    #[test]
    fn byte_order_mark() {
        assert_eq!(lines("\u{FEFF}one\n\u{FEFF}two\n".as_bytes()), ["one", "\u{FEFF}two"]);
        assert_eq!(lines(BOM), [""; 0]);
        assert_eq!(lines("\u{FEFF}\n".as_bytes()), [""]);
    }

    /// A damaged line is marked and numbered, the others are as they were.
    #[test]
    fn invalid_utf8() {
        let read: Vec<Line> = Lines::new(Cursor::new(b"one\ntwo\nth\xFFree\nfour\n\xC3".to_vec()), "input")
            .unwrap()
            .map(|line| line.unwrap())
            .collect();
        let seen: Vec<_> = read.iter().map(|line| (line.number, line.text.as_str(), line.damaged)).collect();
        let expected = [
            (1, "one", false),
            (2, "two", false),
            (3, "th\u{FFFD}ree", true),
            (4, "four", false),
            (5, "\u{FFFD}", true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn other_forms_are_refused_by_name() {
        let utf16: Vec<u8> = "Hello there\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for bytes in [&b"\xFF\xFEH\0i\0\n\0"[..], b"\xFE\xFF\0H\0i\0\n", &utf16] {
            let message = error(bytes);
            assert!(message.starts_with("input: ") && message.contains("UTF-16"), "{message}");
        }
        assert!(error(b"\xFD7zXZ\0\0\0").contains("xz"));
        assert!(error(b"version https://git-lfs.github.com/spec/v1\n").contains("git lfs pull"));
        assert_eq!(lines(b"a zero \0 inside\n"), ["a zero \0 inside"]);
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    /// Also several members one after another, as parallel compressors write them.
    #[test]
    fn compressed_input() {
        let long = "a line of some length\n".repeat(20_000);
        for pack in [gzip, zstd] {
            assert_eq!(lines(&pack(b"one\ntwo\n")), ["one", "two"]);
            assert_eq!(lines(&[pack(b"one\ntw"), pack(b"o\nthree\n")].concat()), ["one", "two", "three"]);
            assert_eq!(lines(&pack(b"")), [""; 0]);
            assert_eq!(lines(&pack(long.as_bytes())).len(), 20_000);
            let packed = pack(long.as_bytes());
            let message = error(&packed[..packed.len() / 2]);
            assert!(message.starts_with("input: "), "{message}");
        }
        let skippable = [ZSTD_SKIPPABLE, &[3, 0, 0, 0], b"xyz"].concat();
        assert_eq!(lines(&[skippable.clone(), zstd(b"one\n"), skippable].concat()), ["one"]);
    }

    #[test]
    fn a_damaged_checksum_is_an_error() {
        let mut packed = gzip(b"one\n");
        let crc = packed.len() - 8;
        packed[crc] ^= 1;
        assert!(error(&packed).starts_with("input: "));
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a.en.gz"), gzip(b"one\n")).unwrap();
        assert_eq!(Lines::open(path("a.en.gz")).unwrap().next().unwrap().unwrap().text, "one");
        // Compressed data is known by its content whatever its name, but a name must not lie.
        std::fs::write(path("b.en"), zstd(b"two\n")).unwrap();
        assert_eq!(Lines::open(path("b.en")).unwrap().next().unwrap().unwrap().text, "two");
        std::fs::write(path("c.en.gz"), b"three\n").unwrap();
        let message = Lines::open(path("c.en.gz")).err().unwrap().to_string();
        assert!(message.contains("c.en.gz: named .gz, but"), "{message}");
        let message = Lines::open(path("d.en")).err().unwrap().to_string();
        assert!(message.contains("d.en"), "{message}");
    }

    /// A stream that hands out what was sent to it and otherwise waits.
    struct Pipe(mpsc::Receiver<Vec<u8>>, Vec<u8>);

    impl Read for Pipe {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let n = buf.len().min(self.1.len());
            buf[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }

    /// Would wait for ever if it read past a line feed. `(` is also how Zstandard data starts.
    #[test]
    fn a_line_arrives_before_the_next_is_sent() {
        let (sender, receiver) = mpsc::channel();
        sender.send(b"(\n".to_vec()).unwrap();
        let mut lines = Lines::new(Pipe(receiver, vec![]), "pipe").unwrap();
        assert_eq!(lines.next().unwrap().unwrap().text, "(");
        for text in ["one", "two"] {
            sender.send(text.as_bytes()[..1].to_vec()).unwrap();
            sender.send([&text.as_bytes()[1..], b"\n"].concat()).unwrap();
            assert_eq!(lines.next().unwrap().unwrap().text, text);
        }
        drop(sender);
        assert!(lines.next().is_none());
    }
}
