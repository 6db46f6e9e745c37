//! The part of Python's pickle protocol that `torch.save` uses for a dictionary of tensors (pickletools.py of Python 3 lists the
//! codes, [`super::pickle_codes`] those that are known here). Nothing is ever executed: a pickle names functions to call, and only those that put tensors together are known here.
//!
//! Values are small and copied, what they hold lies in one list: nothing is nested in memory, so a crafted file cannot
//! exhaust the stack, and each code adds a few dozen bytes at most, so a limit on codes bounds the memory.

use super::names::short;
use super::pickle_codes::{Code, Reader};
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
    /// What no tensor needs.
    Other,
    Int(i64),
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
    let mut reader = Reader::new(bytes);
    let mut codes = 0;
    let top = loop {
        codes += 1;
        if codes > MAX_CODES {
            return Err(format!("more than {MAX_CODES} pickle codes: this is no list of a model's weights"));
        }
        let at = reader.at();
        if let Some(top) = reader
            .next()
            .and_then(|code| machine.run(code))
            .map_err(|what| format!("pickle code at byte {at}: {what}"))?
        {
            break top;
        }
    };
    machine.dictionary(top)
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
    fn run(&mut self, code: Code<'a>) -> Result<Option<Value<'a>>, String> {
        match code {
            Code::Nothing => {}
            Code::Mark => self.marks.push(self.stack.len()),
            Code::None | Code::Bool | Code::Float => self.stack.push(Value::Other),
            Code::Int(n) => self.stack.push(Value::Int(n)),
            Code::Text(text) => self.stack.push(Value::Text(text)),
            Code::Global(module, name) => self.global(module, name)?,
            Code::StackGlobal => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err("a function whose name is no text".into());
                };
                self.global(module, name)?;
            }
            Code::EmptyTuple => self.push(Node::Tuple(Vec::new())),
            Code::EmptyList => self.push(Node::List),
            Code::EmptyDict => self.push(Node::Dict(Vec::new())),
            Code::Tuple => {
                let items = self.since_mark()?;
                self.push(Node::Tuple(items));
            }
            Code::TupleOf(n) => {
                let from = self.stack.len().checked_sub(n).ok_or("an empty stack")?;
                let items = self.stack.split_off(from);
                self.push(Node::Tuple(items));
            }
            // Lists, and attributes such as the versions of layers, hold nothing that a model needs.
            Code::Appends => _ = self.since_mark()?,
            Code::Append | Code::Build => _ = self.pop()?,
            Code::SetItem => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            Code::SetItems => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            Code::Keep(at) => {
                let at = at.unwrap_or(self.memo.len());
                self.memo.insert(at, *self.stack.last().ok_or("an empty stack")?);
            }
            Code::Kept(at) => self.stack.push(*self.memo.get(&at).ok_or("a value that was never kept")?),
            Code::Persistent => self.persistent()?,
            Code::Reduce => self.reduce()?,
            Code::Stop => return self.pop().map(Some),
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

    /// The node that a value is, if it is one.
    fn node(&self, value: Value<'a>) -> Option<&Node<'a>> {
        if let Value::Node(at) = value { self.nodes.get(at) } else { None }
    }

    fn tuple(&self, value: Value<'a>) -> Result<&[Value<'a>], String> {
        match self.node(value) {
            Some(Node::Tuple(items)) => Ok(items),
            _ => Err("something else than a tuple".into()),
        }
    }

    /// Puts keys and values in turn into the dictionary on the stack.
    fn set(&mut self, items: &[Value<'a>]) -> Result<(), String> {
        let Some(Node::Dict(entries)) = self.stack.last().and_then(|&top| match top {
            Value::Node(at) => self.nodes.get_mut(at),
            _ => None,
        }) else {
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
            (Value::Global(Global::RebuildTensor), &[storage, offset, shape, stride, ..]) => {
                let Some(&Node::Storage(dtype, storage)) = self.node(storage) else {
                    return Err("a tensor without a storage".into());
                };
                let (shape, stride) = (self.sizes(shape)?, self.sizes(stride)?);
                Node::Tensor(TensorPlace { dtype, storage, offset: size(offset)?, shape, stride })
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
        let Some(Node::Dict(entries)) = self.node(top) else {
            return Err("it holds something else than a dictionary of tensors".into());
        };
        let (mut tensors, mut others) = (Vec::new(), Vec::new());
        for &(key, value) in entries {
            let Value::Text(name) = key else { return Err("a tensor whose name is no text".into()) };
            match self.node(value) {
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
