//! The file of a SentencePiece model: those fields of its protocol buffer (`sentencepiece_model.proto` of
//! SentencePiece 0.2.3) that decide how a text is cut. Unknown fields are passed over, as in any protocol buffer.
//!
//! Read by hand: what a code generator and its crates would add is larger than this file.

/// What a piece is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// Learnt from text.
    Normal,
    /// What stands for everything that is no piece.
    Unknown,
    /// Never found in a text: `</s>`, `<2de>`.
    Control,
    /// Always cut from a text as a whole.
    UserDefined,
    /// Learnt, but not to be used.
    Unused,
    /// One byte of a character without a piece: `<0x3A>`.
    Byte,
}

/// How a text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ModelKind {
    #[default]
    Unigram,
    Bpe,
    Word,
    Char,
}

/// A piece, its text a part of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    pub score: f32,
    pub kind: PieceKind,
}

/// The settings of its training that matter afterwards.
#[derive(Debug)]
pub(super) struct TrainerSpec<'a> {
    pub model: ModelKind,
    pub byte_fallback: bool,
    pub whitespace_is_suffix: bool,
    pub bos: &'a str,
    pub eos: &'a str,
    pub pad: &'a str,
}

/// What happens to a text before it is cut, or after it was put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormalizerSpec<'a> {
    pub charsmap: &'a [u8],
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
}

/// A whole file.
#[derive(Debug, Default)]
pub(super) struct ModelFile<'a> {
    pub pieces: Vec<Piece<'a>>,
    pub trainer: TrainerSpec<'a>,
    pub normalizer: NormalizerSpec<'a>,
    pub denormalizer: NormalizerSpec<'a>,
}

impl Default for TrainerSpec<'_> {
    fn default() -> Self {
        TrainerSpec {
            model: ModelKind::Unigram,
            byte_fallback: false,
            whitespace_is_suffix: false,
            bos: "<s>",
            eos: "</s>",
            pad: "<pad>",
        }
    }
}

impl Default for NormalizerSpec<'_> {
    fn default() -> Self {
        NormalizerSpec {
            charsmap: &[],
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        }
    }
}

impl<'a> ModelFile<'a> {
    /// Reads a file; an error says what was expected and found, without the name of the file.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut file = ModelFile::default();
        for field in Fields::new(bytes, 0) {
            match field? {
                (1, value) => file.pieces.push(piece(value.message()?)?),
                (2, value) => file.trainer.read(value.message()?)?,
                (3, value) => file.normalizer.read(value.message()?)?,
                (5, value) => file.denormalizer.read(value.message()?)?,
                _ => {}
            }
        }
        Ok(file)
    }
}

fn piece<'a>(fields: Fields<'a>) -> Result<Piece<'a>, String> {
    let mut piece = Piece { text: "", score: 0.0, kind: PieceKind::Normal };
    for field in fields {
        match field? {
            (1, value) => piece.text = value.text()?,
            (2, value) => piece.score = value.float()?,
            (3, value) => {
                piece.kind = match value.number()? {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    other => {
                        return Err(format!(
                            "the piece {:?} has the type {other}, known are 1 to 6",
                            piece.text
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(piece)
}

impl<'a> TrainerSpec<'a> {
    fn read(&mut self, fields: Fields<'a>) -> Result<(), String> {
        // An empty name means the usual one.
        let name =
            |value: Value<'a>, usual| value.text().map(|text| if text.is_empty() { usual } else { text });
        for field in fields {
            match field? {
                (3, value) => {
                    self.model = match value.number()? {
                        1 => ModelKind::Unigram,
                        2 => ModelKind::Bpe,
                        3 => ModelKind::Word,
                        4 => ModelKind::Char,
                        other => {
                            return Err(format!(
                                "its model type is {other}, known are 1 (unigram), 2 (bpe), 3 (word) and 4 (char)"
                            ));
                        }
                    }
                }
                (24, value) => self.whitespace_is_suffix = value.number()? != 0,
                (35, value) => self.byte_fallback = value.number()? != 0,
                (46, value) => self.bos = name(value, "<s>")?,
                (47, value) => self.eos = name(value, "</s>")?,
                (48, value) => self.pad = name(value, "<pad>")?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'a> NormalizerSpec<'a> {
    fn read(&mut self, fields: Fields<'a>) -> Result<(), String> {
        for field in fields {
            match field? {
                (2, value) => self.charsmap = value.bytes()?,
                (3, value) => self.add_dummy_prefix = value.number()? != 0,
                (4, value) => self.remove_extra_whitespaces = value.number()? != 0,
                (5, value) => self.escape_whitespaces = value.number()? != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The fields of a message one after the other: number and value.
struct Fields<'a> {
    rest: &'a [u8],
    /// Where `rest` starts in the file, for messages.
    at: usize,
}

/// A field's value, by its wire type.
struct Value<'a> {
    content: Content<'a>,
    field: u64,
    /// Where the content starts in the file.
    at: usize,
}

#[derive(Debug)]
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Four([u8; 4]),
    Eight,
}

impl<'a> Fields<'a> {
    fn new(rest: &'a [u8], at: usize) -> Self {
        Fields { rest, at }
    }

    fn cut_short(&self, what: &str) -> String {
        format!("{what} at byte {} ends behind its end: cut short or damaged, fetch it again", self.at)
    }

    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.cut_short(what))?;
        (self.rest, self.at) = (rest, self.at + n);
        Ok(taken)
    }

    /// A number in groups of 7 bits, the low ones first; the high bit of a byte says that another follows.
    fn varint(&mut self) -> Result<u64, String> {
        let (mut number, start) = (0u64, self.at);
        for shift in (0..64).step_by(7) {
            let byte = self.take(1, "a number")?.iter().copied().fold(0, |_, byte| byte);
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(format!(
            "the number at byte {start} has more than 64 bits: damaged, or not a SentencePiece model"
        ))
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), String> {
        let start = self.at;
        let key = self.varint()?;
        let (field, mut at) = (key >> 3, self.at);
        let content = match key & 7 {
            0 => Content::Number(self.varint()?),
            1 => self.take(8, "a field").map(|_| Content::Eight)?,
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                at = self.at;
                Content::Bytes(self.take(length, "a field")?)
            }
            5 => match *self.take(4, "a field")? {
                [a, b, c, d] => Content::Four([a, b, c, d]),
                _ => return Err(self.cut_short("a field")),
            },
            other => {
                return Err(format!(
                    "byte {start} starts a field of wire type {other}, which no SentencePiece model has: damaged, \
                     or another kind of file"
                ));
            }
        };
        Ok((field, Value { content, field, at }))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Value<'a> {
    fn bytes(self) -> Result<&'a [u8], String> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(self.unexpected("bytes")),
        }
    }

    fn message(self) -> Result<Fields<'a>, String> {
        let at = self.at;
        self.bytes().map(|bytes| Fields::new(bytes, at))
    }

    fn text(self) -> Result<&'a str, String> {
        let at = self.at;
        let text = std::str::from_utf8(self.bytes()?);
        text.map_err(|_| format!("the text at byte {at} is not UTF-8: damaged, fetch it again"))
    }

    fn number(self) -> Result<u64, String> {
        match self.content {
            Content::Number(number) => Ok(number),
            _ => Err(self.unexpected("a number")),
        }
    }

    fn float(self) -> Result<f32, String> {
        match self.content {
            Content::Four(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.unexpected("a float")),
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        format!(
            "field {} at byte {} should be {expected}: damaged, or not a SentencePiece model",
            self.field, self.at
        )
    }
}
