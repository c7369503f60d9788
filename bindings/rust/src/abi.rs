//! The C ABI: layouts of values, objects and tensors, and the dynamic loader.

use std::ffi::{c_char, c_int, c_void};

pub const NONE: i32 = 0;
pub const INT: i32 = 1;
pub const BOOL: i32 = 2;
pub const FLOAT: i32 = 3;
pub const DTYPE: i32 = 5;
pub const DLTENSOR_PTR: i32 = 7;
pub const SMALL_STR: i32 = 11;
pub const OBJECT_BEGIN: i32 = 64;
pub const STR: i32 = 65;
pub const TENSOR: i32 = 70;
pub const ARRAY: i32 = 71;

/// A value of any type; `bits` holds a number, a pointer or a few bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    pub index: i32,
    pub padding: u32,
    pub bits: u64,
}

pub const EMPTY: Value = Value {
    index: NONE,
    padding: 0,
    bits: 0,
};

/// What an element is: DLPack's code, and bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub dtype: DType,
    pub shape: *const i64,
    pub strides: *const i64,
    pub byte_offset: u64,
}

/// Head of every object.
#[repr(C)]
pub struct Object {
    pub counts: std::sync::atomic::AtomicU64,
    pub index: i32,
    pub reserved: u32,
    pub deleter: Option<unsafe extern "C" fn(*mut Object, c_int)>,
}

#[repr(C)]
pub struct TensorObject {
    pub head: Object,
    pub tensor: DLTensor,
}

#[repr(C)]
pub struct ArrayObject {
    pub head: Object,
    pub data: *const Value,
    pub size: i64,
    pub capacity: i64,
    pub data_deleter: *const c_void,
}

#[repr(C)]
pub struct StringObject {
    pub head: Object,
    pub data: *const u8,
    pub size: usize,
}

pub type SafeCall = unsafe extern "C" fn(*mut c_void, *const Value, i32, *mut Value) -> c_int;
pub type LastError = unsafe extern "C" fn() -> *const c_char;

/// Gives up one reference to an object; the last one ends it.
///
/// # Safety
/// `object` is live, and the reference is the caller's.
pub unsafe fn release(object: *mut Object) {
    use std::sync::atomic::Ordering::AcqRel;
    const WEAK_ONE: u64 = 1 << 32;
    let before = (*object).counts.fetch_sub(1, AcqRel);
    let Some(deleter) = (*object).deleter else {
        return;
    };
    if before == WEAK_ONE + 1 {
        deleter(object, 3);
    } else if before & 0xffff_ffff == 1 {
        deleter(object, 1);
        if (*object).counts.fetch_sub(WEAK_ONE, AcqRel) == WEAK_ONE {
            deleter(object, 2);
        }
    }
}

// glibc before 2.34 keeps these in libdl.
#[link(name = "dl")]
extern "C" {
    pub fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlerror() -> *const c_char;
}

pub const RTLD_NOW: c_int = 2;
