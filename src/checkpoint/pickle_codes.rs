//! The codes of Python's pickle protocols 2 to 4 that `torch.save` writes for weights (pickletools.py of Python 3).

/// One code. What it takes from the stack is in [`super::pickle`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Code<'a> {
    /// Says nothing about values.
    Nothing,
    /// Begins a group on the stack.
    Mark,
    /// None
    None,
    /// True or False
    Bool,
    /// A number with a fraction.
    Float,
    /// A whole number.
    Int(i64),
    /// A text.
    Text(&'a str),
    /// A function or type by its module and name.
    Global(&'a str, &'a str),
    /// The same, with the names on the stack.
    StackGlobal,
    /// ()
    EmptyTuple,
    /// []
    EmptyList,
    /// {}
    EmptyDict,
    /// The group as a tuple.
    Tuple,
    /// The last values as a tuple.
    TupleOf(usize),
    /// The group goes into a list.
    Appends,
    /// A value goes into a list.
    Append,
    /// A value becomes the attributes of the one before it.
    Build,
    /// A key and a value go into a dictionary.
    SetItem,
    /// The group of keys and values does.
    SetItems,
    /// Keeps the last value under a number, or under the next.
    Keep(Option<usize>),
    /// The value kept under a number.
    Kept(usize),
    /// A reference to something outside the pickle.
    Persistent,
    /// Calls a function with a tuple of arguments.
    Reduce,
    /// The last value is the whole.
    Stop,
}

/// Reads one code after the other.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Where the next code stands.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next code with its argument.
    pub(super) fn next(&mut self) -> Result<Code<'a>, String> {
        let code = self.number(1)? as u8;
        Ok(match code {
            // Version, and length of what follows.
            0x80 => self.take(1).map(|_| Code::Nothing)?,
            0x95 => self.take(8).map(|_| Code::Nothing)?,
            b'(' => Code::Mark,
            b'N' => Code::None,
            0x88 | 0x89 => Code::Bool,
            b'G' => self.take(8).map(|_| Code::Float)?,
            b'K' => Code::Int(self.number(1)? as i64),
            b'M' => Code::Int(self.number(2)? as i64),
            b'J' => Code::Int(self.signed(4)?),
            0x8a => {
                let length = self.number(1)?;
                Code::Int(self.signed(length)?)
            }
            b'X' | 0x8c => {
                let length = self.number(if code == b'X' { 4 } else { 1 })?;
                Code::Text(self.text(length)?)
            }
            b'c' => Code::Global(self.line()?, self.line()?),
            0x93 => Code::StackGlobal,
            b')' => Code::EmptyTuple,
            b']' => Code::EmptyList,
            b'}' => Code::EmptyDict,
            b't' => Code::Tuple,
            0x85..=0x87 => Code::TupleOf(usize::from(code - 0x84)),
            b'e' => Code::Appends,
            b'a' => Code::Append,
            b'b' => Code::Build,
            b's' => Code::SetItem,
            b'u' => Code::SetItems,
            b'q' => Code::Keep(Some(self.number(1)?)),
            b'r' => Code::Keep(Some(self.number(4)?)),
            0x94 => Code::Keep(None),
            b'h' => Code::Kept(self.number(1)?),
            b'j' => Code::Kept(self.number(4)?),
            b'Q' => Code::Persistent,
            b'R' => Code::Reduce,
            b'.' => Code::Stop,
            _ => return Err(format!("0x{code:02x} is not used by torch.save for weights")),
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length);
        let part = end
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or("the pickle is cut: fetch the file again")?;
        self.at += length;
        Ok(part)
    }

    fn number(&mut self, length: usize) -> Result<usize, String> {
        Ok(self.take(length)?.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
    }

    /// A whole number of `length` bytes with a sign.
    fn signed(&mut self, length: usize) -> Result<i64, String> {
        let bytes = self.take(length)?;
        if bytes.len() > 8 {
            return Err(format!("a number of {} bytes", bytes.len()));
        }
        let negative = bytes.last().is_some_and(|&last| last >= 128);
        Ok(bytes
            .iter()
            .rev()
            .fold(if negative { -1 } else { 0 }, |value, &byte| value << 8 | i64::from(byte)))
    }

    fn text(&mut self, length: usize) -> Result<&'a str, String> {
        std::str::from_utf8(self.take(length)?).map_err(|_| "a text that is not UTF-8".to_string())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').ok_or("a name without an end")?;
        let line = self.text(length)?;
        self.at += 1;
        Ok(line)
    }
}
