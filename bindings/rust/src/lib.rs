//! Load a module that kdsl exported and call its functions with slices and numbers.
//!
//! ```no_run
//! use kdsl::{Module, View, ViewMut};
//!
//! let module = Module::load("./kernels.so")?;
//! let x = [1.0f32, 2.0, 3.0];
//! let mut o = [0.0f32; 3];
//! let (x, mut o) = (View::new(&x, &[1, 3])?, ViewMut::new(&mut o, &[1, 3])?);
//! module.function("softmax")?.call(&mut [x.arg(), o.arg()])?;
//! # Ok::<(), kdsl::Error>(())
//! ```
//!
//! A call checks everything that the module checks, and what Rust promises besides: a shared slice
//! is never passed for a parameter that the function writes. Nothing here panics on wrong input.

mod abi;
mod array;

use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;

pub use abi::DType;
pub use array::{Element, Tensor, View, ViewMut, BF16, F16};

/// Why a call failed: `kind` is the name of the Python exception, `text` the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: String,
    pub text: String,
}

impl Error {
    pub(crate) fn new(kind: &str, text: impl Into<String>) -> Error {
        Error {
            kind: kind.into(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// An argument of a call. Numbers and bools convert `into()` one; views give theirs by `arg()`.
pub struct Arg<'a> {
    value: abi::Value,
    tensor: Option<(abi::DLTensor, bool)>,
    memory: PhantomData<&'a mut ()>,
}

impl Arg<'_> {
    /// An output that the call is to make, a default, an input that is left out.
    pub const fn none() -> Arg<'static> {
        Arg {
            value: abi::EMPTY,
            tensor: None,
            memory: PhantomData,
        }
    }
    fn plain(index: i32, bits: u64) -> Arg<'static> {
        Arg {
            value: abi::Value {
                index,
                padding: 0,
                bits,
            },
            tensor: None,
            memory: PhantomData,
        }
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Arg::plain(abi::BOOL, u64::from(value))
    }
}
impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Arg::plain(abi::INT, value as u64)
    }
}
impl From<f64> for Arg<'_> {
    fn from(value: f64) -> Self {
        Arg::plain(abi::FLOAT, value.to_bits())
    }
}
impl From<DType> for Arg<'_> {
    fn from(value: DType) -> Self {
        let bits =
            u64::from(value.code) | u64::from(value.bits) << 8 | u64::from(value.lanes) << 16;
        Arg::plain(abi::DTYPE, bits)
    }
}

/// What a call returns: nothing, a number, or tensors that it has made.
#[derive(Debug)]
pub enum Output {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Tensors(Vec<Tensor>),
}

impl Output {
    /// The tensors; an error where there are none.
    pub fn tensors(self) -> Result<Vec<Tensor>> {
        match self {
            Output::Tensors(tensors) => Ok(tensors),
            other => Err(Error::new(
                "TypeError",
                format!("the call returned {other:?}"),
            )),
        }
    }
}

/// A library of packed functions. It stays in the process once it is loaded.
#[derive(Clone, Copy)]
pub struct Module {
    handle: *mut std::ffi::c_void,
    last_error: Option<abi::LastError>,
}

// A handle of the dynamic loader, which serves all threads.
unsafe impl Send for Module {}
unsafe impl Sync for Module {}

impl Module {
    /// Loads the library at `path`; a path without a slash is looked for as the system does.
    ///
    /// The code of a library runs when it is loaded and called: load only what you trust.
    pub fn load(path: &str) -> Result<Module> {
        let text = |_| Error::new("ValueError", format!("{path:?} has a NUL in it"));
        let name = CString::new(path).map_err(text)?;
        // SAFETY: a string with its NUL; what dlerror returns is read before the next call.
        let handle = unsafe { abi::dlopen(name.as_ptr(), abi::RTLD_NOW) };
        if handle.is_null() {
            let why = unsafe { abi::dlerror() };
            let why = if why.is_null() {
                "no reason given".into()
            } else {
                unsafe { CStr::from_ptr(why) }
                    .to_string_lossy()
                    .into_owned()
            };
            return Err(Error::new("OSError", why));
        }
        let mut module = Module {
            handle,
            last_error: None,
        };
        // SAFETY: the symbol of that name has this type in every module of kdsl's.
        module.last_error = module
            .symbol("__kdsl_last_error")
            .map(|s| unsafe { std::mem::transmute::<*mut std::ffi::c_void, abi::LastError>(s) });
        Ok(module)
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Result<Function> {
        let missing = || {
            Error::new(
                "AttributeError",
                format!("the library has no function `{name}`"),
            )
        };
        let entry = self
            .entry(&format!("__tvm_ffi_{name}"))
            .ok_or_else(missing)?;
        let metadata = self
            .text(&format!("__tvm_ffi__metadata_{name}"))
            .unwrap_or_default();
        Ok(Function {
            entry,
            module: *self,
            written: written(&metadata),
        })
    }

    fn symbol(&self, name: &str) -> Option<*mut std::ffi::c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is one of dlopen's.
        let found = unsafe { abi::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
    fn entry(&self, name: &str) -> Option<abi::SafeCall> {
        // SAFETY: symbols with the prefix are packed functions by the ABI.
        self.symbol(name)
            .map(|s| unsafe { std::mem::transmute::<*mut std::ffi::c_void, abi::SafeCall>(s) })
    }
    /// What a function without parameters returns as a string.
    fn text(&self, name: &str) -> Option<String> {
        let entry = self.entry(name)?;
        let mut result = abi::EMPTY;
        // SAFETY: no arguments, and a place for the result.
        if unsafe { entry(null_mut(), &abi::EMPTY, 0, &mut result) } != 0 {
            return None;
        }
        let owned = Owned(result);
        owned.text()
    }
    fn error(&self) -> Error {
        let text = match self.last_error {
            // SAFETY: a string of this thread's, valid until its next failed call.
            Some(get) => unsafe { CStr::from_ptr(get()) }
                .to_string_lossy()
                .into_owned(),
            None => "RuntimeError: the call failed".into(),
        };
        match text.split_once(": ") {
            Some((kind, text)) => Error::new(kind, text),
            None => Error::new("RuntimeError", text),
        }
    }
}

/// A function of a module.
pub struct Function {
    entry: abi::SafeCall,
    module: Module,
    /// Whether each parameter is written; empty where the module does not tell.
    written: Vec<bool>,
}

impl Function {
    /// Calls with arguments in the order of the signature.
    pub fn call(&self, args: &mut [Arg<'_>]) -> Result<Output> {
        let known = !self.written.is_empty();
        let mut values = Vec::with_capacity(args.len() + 1);
        for (place, arg) in args.iter_mut().enumerate() {
            let written = self.written.get(place).copied().unwrap_or(!known);
            match &arg.tensor {
                Some((_, mutable)) if written && !mutable => {
                    let text = format!("argument {place}: the function writes it; pass a ViewMut");
                    return Err(Error::new("TypeError", text));
                }
                Some((tensor, _)) => values.push(abi::Value {
                    index: abi::DLTENSOR_PTR,
                    padding: 0,
                    bits: tensor as *const abi::DLTensor as u64,
                }),
                None => values.push(arg.value),
            }
        }
        let count = values.len() as i32;
        values.push(abi::EMPTY);
        let mut result = abi::EMPTY;
        // SAFETY: the values borrow from `args`, which outlive the call; views name live memory of
        // the sizes they say, and what is written was borrowed mutably.
        if unsafe { (self.entry)(null_mut(), values.as_ptr(), count, &mut result) } != 0 {
            return Err(self.module.error());
        }
        Owned(result).output()
    }
}

/// A value that a call has handed over.
struct Owned(abi::Value);

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0.index >= abi::OBJECT_BEGIN && self.0.bits != 0 {
            // SAFETY: the reference is ours.
            unsafe { abi::release(self.0.bits as *mut abi::Object) }
        }
    }
}

impl Owned {
    fn text(&self) -> Option<String> {
        // SAFETY: the index says which object it is; small strings lie in the value.
        let bytes = match self.0.index {
            abi::STR => unsafe {
                let object = self.0.bits as *const abi::StringObject;
                std::slice::from_raw_parts((*object).data, (*object).size).to_vec()
            },
            abi::SMALL_STR => self.0.bits.to_ne_bytes()[..self.0.padding.min(7) as usize].to_vec(),
            _ => return None,
        };
        String::from_utf8(bytes).ok()
    }

    fn output(self) -> Result<Output> {
        let bits = self.0.bits;
        match self.0.index {
            abi::NONE => Ok(Output::None),
            abi::BOOL => Ok(Output::Bool(bits != 0)),
            abi::INT => Ok(Output::Int(bits as i64)),
            abi::FLOAT => Ok(Output::Float(f64::from_bits(bits))),
            abi::TENSOR => {
                std::mem::forget(self);
                // SAFETY: the reference moves into the Tensor.
                Ok(Output::Tensors(vec![unsafe {
                    Tensor::own(bits as *mut abi::TensorObject)
                }]))
            }
            abi::ARRAY => {
                let object = bits as *const abi::ArrayObject;
                // SAFETY: `size` values lie at `data` as long as the array lives.
                let items =
                    unsafe { std::slice::from_raw_parts((*object).data, (*object).size as usize) };
                items
                    .iter()
                    .map(|item| match item.index {
                        // SAFETY: the array keeps the tensor until we have a reference of our own.
                        abi::TENSOR => {
                            Ok(unsafe { Tensor::share(item.bits as *mut abi::TensorObject) })
                        }
                        index => Err(Error::new("TypeError", format!("a result of type {index}"))),
                    })
                    .collect::<Result<_>>()
                    .map(Output::Tensors)
            }
            index => Err(Error::new("TypeError", format!("a result of type {index}"))),
        }
    }
}

/// Of each parameter in a module's metadata, whether the function writes it.
fn written(metadata: &str) -> Vec<bool> {
    let Some(start) = metadata.find("\"params\":") else {
        return Vec::new();
    };
    let end = metadata[start..]
        .find("\"dims\":")
        .map_or(metadata.len(), |end| start + end);
    metadata[start..end]
        .match_indices("\"kind\": \"")
        .map(|(at, key)| {
            let rest = &metadata[start + at + key.len()..];
            rest.starts_with("out\"") || rest.starts_with("inout\"")
        })
        .collect()
}
