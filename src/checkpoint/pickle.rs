//! The part of Python's pickle protocol that `torch.save` uses for a dictionary of tensors (pickletools.py of Python 3 lists the
//! codes). Nothing is ever executed: a pickle names functions to call, and only those that put tensors together are known here.
//!
//! Values are small and copied, what they hold lies in one list: nothing is nested in memory, so a crafted file cannot
//! exhaust the stack, and each code adds a few dozen bytes at most, so a limit on codes bounds the memory.

use candle_core::DType;
use std::collections::HashMap;

/// More codes than any model has (one of 48 layers has 40,000).
const MAX_CODES: usize = 200_000;
/// More sides than any tensor has.
const MAX_DIMS: usize = 8;

/// A tensor as its pickle describes it: a part of a storage.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorPlace<'a> {
    /// Type of its numbers.
    pub dtype: DType,
    /// Which storage.
    pub storage: &'a str,
    /// Its first number there.
    pub offset: usize,
    /// Its shape.
    pub shape: Vec<usize>,
    /// For each side, how far apart neighbours are.
    pub stride: Vec<usize>,
}

/// Functions and types that are known.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(DType),
}

impl Global {
    fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("torch", "FloatStorage") => Global::Storage(DType::F32),
            ("torch", "HalfStorage") => Global::Storage(DType::F16),
            ("torch", "BFloat16Storage") => Global::Storage(DType::BF16),
            ("torch", "DoubleStorage") => Global::Storage(DType::F64),
            ("torch", "LongStorage") => Global::Storage(DType::I64),
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    None,
    Bool,
    Int(i64),
    Float,
    Text(&'a str),
    Global(Global),
    /// Lies in the list of nodes.
    Node(usize),
}

#[derive(Debug, PartialEq)]
enum Node<'a> {
    Tuple(Vec<Value<'a>>),
    List,
    Dict(Vec<(Value<'a>, Value<'a>)>),
    Storage(DType, &'a str),
    Tensor(TensorPlace<'a>),
}

/// The tensors of the dictionary that `bytes` describe, in its order.
pub fn tensors(bytes: &[u8]) -> Result<Vec<(&str, TensorPlace<'_>)>, String> {
    let mut machine = Machine::default();
    let mut reader = Reader { bytes, at: 0 };
    let mut codes = 0;
    let top = loop {
        codes += 1;
        if codes > MAX_CODES {
            return Err(format!("more than {MAX_CODES} pickle codes: this is no list of a model's weights"));
        }
        let at = reader.at;
        if let Some(top) =
            machine.run(&mut reader).map_err(|what| format!("pickle code at byte {at}: {what}"))?
        {
            break top;
        }
    };
    machine.dictionary(top)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
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

#[derive(Default)]
struct Machine<'a> {
    nodes: Vec<Node<'a>>,
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    memo: HashMap<usize, Value<'a>>,
}

impl<'a> Machine<'a> {
    /// Runs one code; the value of the whole at the last.
    fn run(&mut self, reader: &mut Reader<'a>) -> Result<Option<Value<'a>>, String> {
        let code = reader.number(1)? as u8;
        match code {
            0x80 => _ = reader.take(1)?,
            0x95 => _ = reader.take(8)?,
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.stack.push(Value::None),
            0x88 | 0x89 => self.stack.push(Value::Bool),
            b'K' => self.push_int(reader.number(1)?)?,
            b'M' => self.push_int(reader.number(2)?)?,
            b'J' => self.stack.push(Value::Int(reader.signed(4)?)),
            0x8a => {
                let length = reader.number(1)?;
                self.stack.push(Value::Int(reader.signed(length)?));
            }
            b'G' => {
                reader.take(8)?;
                self.stack.push(Value::Float);
            }
            b'X' | 0x8c => {
                let length = reader.number(if code == b'X' { 4 } else { 1 })?;
                self.stack.push(Value::Text(reader.text(length)?));
            }
            b'c' => {
                let (module, name) = (reader.line()?, reader.line()?);
                self.global(module, name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err("a function whose name is no text".into());
                };
                self.global(module, name)?;
            }
            b')' => self.push(Node::Tuple(Vec::new())),
            b']' => self.push(Node::List),
            b'}' => self.push(Node::Dict(Vec::new())),
            b't' => {
                let items = self.since_mark()?;
                self.push(Node::Tuple(items));
            }
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(code - 0x84)).ok_or("an empty stack")?;
                let items = self.stack.split_off(from);
                self.push(Node::Tuple(items));
            }
            // Lists hold nothing that a model needs.
            b'e' => _ = self.since_mark()?,
            b'a' => _ = self.pop()?,
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            // Attributes of an object, such as the versions of layers.
            b'b' => _ = self.pop()?,
            b'q' | b'r' => {
                let at = reader.number(if code == b'q' { 1 } else { 4 })?;
                self.memo.insert(at, *self.stack.last().ok_or("an empty stack")?);
            }
            0x94 => _ = self.memo.insert(self.memo.len(), *self.stack.last().ok_or("an empty stack")?),
            b'h' | b'j' => {
                let at = reader.number(if code == b'h' { 1 } else { 4 })?;
                self.stack.push(*self.memo.get(&at).ok_or("a value that was never kept")?);
            }
            b'Q' => self.persistent()?,
            b'R' => self.reduce()?,
            b'.' => return self.pop().map(Some),
            _ => return Err(format!("0x{code:02x} is not used by torch.save for weights")),
        }
        Ok(None)
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        self.stack.pop().ok_or_else(|| "an empty stack".into())
    }

    fn push(&mut self, node: Node<'a>) {
        self.stack.push(Value::Node(self.nodes.len()));
        self.nodes.push(node);
    }

    fn push_int(&mut self, n: usize) -> Result<(), String> {
        self.stack.push(Value::Int(i64::try_from(n).map_err(|error| error.to_string())?));
        Ok(())
    }

    fn since_mark(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.marks.pop().filter(|&mark| mark <= self.stack.len());
        Ok(self.stack.split_off(mark.ok_or("a group without a beginning")?))
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), String> {
        let known = Global::find(module, name).ok_or_else(|| {
            format!(
                "it asks to call {}.{}, and tx never runs what a file asks for: only plain tensors of floating-point \
                 numbers are read. If you trust where it comes from, open it in `transformers` and save it with \
                 `save_pretrained`, which writes model.safetensors",
                short(module),
                short(name)
            )
        })?;
        self.stack.push(Value::Global(known));
        Ok(())
    }

    fn tuple(&self, value: Value<'a>) -> Result<&[Value<'a>], String> {
        match value {
            Value::Node(at) => match self.nodes.get(at) {
                Some(Node::Tuple(items)) => Ok(items),
                _ => Err("something else than a tuple".into()),
            },
            _ => Err("something else than a tuple".into()),
        }
    }

    /// Puts keys and values in turn into the dictionary on the stack.
    fn set(&mut self, items: &[Value<'a>]) -> Result<(), String> {
        let Some(&Value::Node(at)) = self.stack.last() else { return Err("no dictionary to fill".into()) };
        let Some(Node::Dict(entries)) = self.nodes.get_mut(at) else {
            return Err("no dictionary to fill".into());
        };
        let pairs = items.as_chunks::<2>();
        if !pairs.1.is_empty() {
            return Err("a key without a value".into());
        }
        entries.extend(pairs.0.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    /// ("storage", type, key, device, count)
    fn persistent(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let &[Value::Text("storage"), Value::Global(Global::Storage(dtype)), Value::Text(key), _, _] =
            self.tuple(id)?
        else {
            return Err("a reference that is no storage".into());
        };
        self.push(Node::Storage(dtype, key));
        Ok(())
    }

    /// Calls what is known.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let made = match (function, self.tuple(arguments)?) {
            (Value::Global(Global::OrderedDict), []) => Node::Dict(Vec::new()),
            (Value::Global(Global::RebuildParameter), &[tensor, ..]) => {
                self.stack.push(tensor);
                return Ok(());
            }
            (Value::Global(Global::RebuildTensor), &[Value::Node(storage), offset, shape, stride, ..]) => {
                let Some(&Node::Storage(dtype, storage)) = self.nodes.get(storage) else {
                    return Err("a tensor without a storage".into());
                };
                let offset = size(offset)?;
                Node::Tensor(TensorPlace {
                    dtype,
                    storage,
                    offset,
                    shape: self.sizes(shape)?,
                    stride: self.sizes(stride)?,
                })
            }
            _ => return Err("a call that makes no tensor".into()),
        };
        self.push(made);
        Ok(())
    }

    fn sizes(&self, value: Value<'a>) -> Result<Vec<usize>, String> {
        let items = self.tuple(value)?;
        if items.len() > MAX_DIMS {
            return Err(format!("a tensor of {} sides", items.len()));
        }
        items.iter().map(|&item| size(item)).collect()
    }

    /// The tensors of the dictionary `top`.
    fn dictionary(&self, top: Value<'a>) -> Result<Vec<(&'a str, TensorPlace<'a>)>, String> {
        let entries = match top {
            Value::Node(at) => match self.nodes.get(at) {
                Some(Node::Dict(entries)) => entries,
                _ => return Err("it holds something else than a dictionary of tensors".into()),
            },
            _ => return Err("it holds something else than a dictionary of tensors".into()),
        };
        let (mut tensors, mut others) = (Vec::new(), Vec::new());
        for &(key, value) in entries {
            let Value::Text(name) = key else { return Err("a tensor whose name is no text".into()) };
            let node = if let Value::Node(at) = value { self.nodes.get(at) } else { None };
            match node {
                Some(Node::Tensor(tensor)) => tensors.push((name, tensor.clone())),
                _ => others.push(short(name)),
            }
        }
        if others.is_empty() {
            return Ok(tensors);
        }
        others.truncate(8);
        Err(format!(
            "{} are no tensors: expected the dictionary of a model's weights alone (its `state_dict()`), not a whole \
             training state",
            others.join(", ")
        ))
    }
}

fn size(value: Value) -> Result<usize, String> {
    match value {
        Value::Int(n) => usize::try_from(n).map_err(|_| format!("{n} where a size stands")),
        _ => Err("something else than a size".into()),
    }
}

/// A name for a message.
fn short(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_called_but_what_makes_tensors() {
        // What pickle.dumps writes for an object whose __reduce__ is (os.system, ("true",)).
        let message = tensors(b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R.").unwrap_err();
        assert!(message.contains("asks to call posix.system, and tx never runs"), "{message}");
        assert!(tensors(b"\x80\x02N.").unwrap_err().contains("something else than a dictionary"));
        assert!(tensors(b"\x80\x02}X\x05\0\0\0modelK\x01s.").unwrap_err().contains("model are no tensors"));
        assert!(tensors(b"\x80\x02}").unwrap_err().contains("is cut"));
        assert_eq!(tensors(b"\x80\x02}.").unwrap(), []);
    }

    /// A dictionary inside itself, a tuple in a tuple a hundred thousand deep, and codes without end.
    #[test]
    fn crafted_pickles_end() {
        assert!(tensors(b"\x80\x02}q\0X\x01\0\0\0ah\0s.").unwrap_err().contains("a are no tensors"));
        let mut deep = b"\x80\x02)".to_vec();
        deep.resize(100_000, 0x85);
        deep.push(b'.');
        assert!(tensors(&deep).is_err());
        assert!(tensors(&vec![b'N'; 1 << 20]).unwrap_err().contains("more than"));
    }
}
