//! Reads the pickle of a PyTorch file, as far as dictionaries of tensors need it.
//!
//! Pickles are programs. This machine supports only what `torch.save` writes for a state dictionary,
//! calls no functions, and refuses everything else.
//! Opcodes: <https://github.com/python/cpython/blob/main/Lib/pickletools.py>.

use super::header::Dtype;
use std::collections::HashMap;

/// A tensor as a pickle describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor<'a> {
    pub name: &'a str,
    pub dtype: Dtype,
    /// The name of its storage in the archive.
    pub storage: &'a str,
    /// Elements of the storage before its first element.
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
}

/// Values contain no other values: containers are indices into lists, so nothing nests without bound.
#[derive(Clone, Copy)]
enum Value<'a> {
    Mark,
    Int(u64),
    Text(&'a str),
    Global(Global),
    Tuple(usize),
    Dict(usize),
    Storage(Dtype, &'a str),
    Tensor(usize),
    /// Values that no tensor depends on: booleans, None, lists.
    Other,
}

#[derive(Clone, Copy)]
enum Global {
    Dict,
    Tensor,
    Parameter,
    Storage(Dtype),
}

/// Reads the tensors of a dictionary in order; an error says what was found.
pub(super) fn tensors(bytes: &[u8]) -> Result<Vec<Tensor<'_>>, String> {
    let mut machine = Machine { rest: bytes, ..Machine::default() };
    let result = machine.run()?;
    let Value::Dict(dict) = result else { return Err("its pickle is not a dictionary".into()) };
    let entries = std::mem::take(&mut machine.dicts[dict]);
    let tensor = |(key, value)| match (key, value) {
        (Value::Text(name), Value::Tensor(index)) => {
            Ok(Tensor { name, ..machine.tensors[index].clone() })
        }
        (Value::Text(name), _) => Err(format!("{name:?} in its dictionary is not a tensor")),
        _ => Err("a name in its dictionary is not a text".into()),
    };
    entries.into_iter().map(tensor).collect()
}

#[derive(Default)]
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value<'a>>,
    memo: HashMap<u32, Value<'a>>,
    tuples: Vec<Vec<Value<'a>>>,
    dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    /// Without names.
    tensors: Vec<Tensor<'a>>,
}

const ENDS: &str = "its pickle ends early";
const CONFUSED: &str = "its pickle is not that of a dictionary of tensors";

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Value<'a>, String> {
        loop {
            match self.byte()? {
                // Protocol, frame: no effect.
                0x80 => self.skip(1)?,
                0x95 => self.skip(8)?,
                b'(' => self.stack.push(Value::Mark),
                b'}' => self.push_dict(),
                b')' => self.push_tuple(Vec::new()),
                b'N' | 0x88 | 0x89 | b']' => self.stack.push(Value::Other),
                b'K' => self.push_int(1)?,
                b'M' => self.push_int(2)?,
                b'J' => self.push_int(4)?,
                0x8a => {
                    let bytes = self.byte()?.into();
                    self.push_int(bytes)?;
                }
                b'X' => {
                    let bytes = self.number(4)?;
                    self.push_text(bytes)?;
                }
                0x8c => {
                    let bytes = self.number(1)?;
                    self.push_text(bytes)?;
                }
                b'q' => self.put(1)?,
                b'r' => self.put(4)?,
                0x94 => {
                    let top = self.top()?;
                    self.memo.insert(self.memo.len() as u32, top);
                }
                b'h' => self.get(1)?,
                b'j' => self.get(4)?,
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    self.push_global(module, name)?;
                }
                0x93 => match (self.pop()?, self.pop()?) {
                    (Value::Text(name), Value::Text(module)) => self.push_global(module, name)?,
                    _ => return Err(CONFUSED.into()),
                },
                b't' => {
                    let items = self.pop_marked()?;
                    self.push_tuple(items);
                }
                count @ 0x85..=0x87 => {
                    let at = self.stack.len().checked_sub(usize::from(count - 0x84));
                    let items = self.stack.split_off(at.ok_or(CONFUSED)?);
                    self.push_tuple(items);
                }
                b'Q' => self.load_storage()?,
                b'R' => self.reduce()?,
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.set(&[key, value])?;
                }
                b'u' => {
                    let items = self.pop_marked()?;
                    self.set(&items)?;
                }
                // The state of an object does not affect its tensors.
                b'b' => {
                    self.pop()?;
                }
                b'.' => return self.pop(),
                other => return Err(format!("its pickle has the opcode {other:#04x}")),
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ENDS)?;
        self.rest = rest;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), String> {
        self.take(count)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// An unsigned number of at most 8 bytes.
    fn number(&mut self, count: usize) -> Result<u64, String> {
        let bytes = self.take(count)?;
        let mut number = [0; 8];
        number
            .get_mut(..count)
            .ok_or("its pickle has a number beyond 2^64")?
            .copy_from_slice(bytes);
        Ok(u64::from_le_bytes(number))
    }

    /// Text up to the end of a line.
    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.rest.iter().position(|byte| *byte == b'\n').ok_or(ENDS)?;
        let line = self.take(end)?;
        self.take(1)?;
        str::from_utf8(line).map_err(|_| CONFUSED.into())
    }

    fn push_int(&mut self, count: usize) -> Result<(), String> {
        let number = self.number(count)?;
        // One- and two-byte integers are unsigned.
        let is_negative = count > 2 && number >> (8 * count - 1) == 1;
        self.stack.push(if is_negative { Value::Other } else { Value::Int(number) });
        Ok(())
    }

    fn push_text(&mut self, bytes: u64) -> Result<(), String> {
        let bytes = self.take(usize::try_from(bytes).map_err(|_| ENDS)?)?;
        self.stack.push(Value::Text(str::from_utf8(bytes).map_err(|_| CONFUSED)?));
        Ok(())
    }

    fn push_tuple(&mut self, items: Vec<Value<'a>>) {
        self.stack.push(Value::Tuple(self.tuples.len()));
        self.tuples.push(items);
    }

    fn push_dict(&mut self) {
        self.stack.push(Value::Dict(self.dicts.len()));
        self.dicts.push(Vec::new());
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<(), String> {
        let global = match (module, name) {
            ("collections", "OrderedDict") => Global::Dict,
            ("torch._utils", "_rebuild_tensor_v2") => Global::Tensor,
            ("torch._utils", "_rebuild_parameter") => Global::Parameter,
            ("torch", "FloatStorage") => Global::Storage(Dtype::F32),
            ("torch", "HalfStorage") => Global::Storage(Dtype::F16),
            ("torch", "BFloat16Storage") => Global::Storage(Dtype::Bf16),
            ("torch", "DoubleStorage") => Global::Storage(Dtype::F64),
            ("torch", "LongStorage") => Global::Storage(Dtype::I64),
            ("torch", "IntStorage") => Global::Storage(Dtype::I32),
            ("torch", "ShortStorage") => Global::Storage(Dtype::I16),
            ("torch", "CharStorage") => Global::Storage(Dtype::I8),
            ("torch", "ByteStorage") => Global::Storage(Dtype::U8),
            ("torch", "BoolStorage") => Global::Storage(Dtype::Bool),
            _ => {
                return Err(format!(
                    "its pickle asks for {module}.{name}, which tensors do not need. Convert it to \
                     safetensors"
                ));
            }
        };
        self.stack.push(Value::Global(global));
        Ok(())
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        self.stack.pop().ok_or_else(|| CONFUSED.into())
    }

    fn top(&self) -> Result<Value<'a>, String> {
        self.stack.last().copied().ok_or_else(|| CONFUSED.into())
    }

    /// Removes the last mark and everything above it, and returns the latter.
    fn pop_marked(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.stack.iter().rposition(|value| matches!(value, Value::Mark));
        let items = self.stack.split_off(mark.ok_or(CONFUSED)?);
        Ok(items[1..].to_vec())
    }

    fn put(&mut self, count: usize) -> Result<(), String> {
        let (key, top) = (self.number(count)? as u32, self.top()?);
        self.memo.insert(key, top);
        Ok(())
    }

    fn get(&mut self, count: usize) -> Result<(), String> {
        let key = self.number(count)? as u32;
        self.stack.push(*self.memo.get(&key).ok_or(CONFUSED)?);
        Ok(())
    }

    /// Sets entries of the dictionary on top of the stack.
    fn set(&mut self, items: &[Value<'a>]) -> Result<(), String> {
        let Value::Dict(dict) = self.top()? else { return Err(CONFUSED.into()) };
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(CONFUSED.into());
        }
        self.dicts[dict].extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn pop_tuple(&mut self) -> Result<Vec<Value<'a>>, String> {
        match self.pop()? {
            Value::Tuple(index) => Ok(self.tuples[index].clone()),
            _ => Err(CONFUSED.into()),
        }
    }

    /// The numbers of a tuple.
    fn numbers(&self, tuple: usize) -> Result<Vec<u64>, String> {
        let number = |value: &Value| match value {
            Value::Int(number) => Ok(*number),
            _ => Err(CONFUSED.into()),
        };
        self.tuples[tuple].iter().map(number).collect()
    }

    fn load_storage(&mut self) -> Result<(), String> {
        match self.pop_tuple()?[..] {
            [
                Value::Text("storage"),
                Value::Global(Global::Storage(dtype)),
                Value::Text(key),
                ..,
            ] => {
                self.stack.push(Value::Storage(dtype, key));
                Ok(())
            }
            _ => Err(CONFUSED.into()),
        }
    }

    /// Emulates a call of one of the few known functions.
    fn reduce(&mut self) -> Result<(), String> {
        let arguments = self.pop_tuple()?;
        let Value::Global(function) = self.pop()? else { return Err(CONFUSED.into()) };
        match (function, &arguments[..]) {
            (Global::Dict, []) => self.push_dict(),
            (
                Global::Tensor,
                &[
                    Value::Storage(dtype, storage),
                    Value::Int(offset),
                    Value::Tuple(shape),
                    Value::Tuple(strides),
                    ..,
                ],
            ) => {
                let (shape, strides) = (self.numbers(shape)?, self.numbers(strides)?);
                self.stack.push(Value::Tensor(self.tensors.len()));
                self.tensors.push(Tensor { name: "", dtype, storage, offset, shape, strides });
            }
            (Global::Parameter, [tensor @ Value::Tensor(_), ..]) => self.stack.push(*tensor),
            _ => return Err(CONFUSED.into()),
        }
        Ok(())
    }
}
