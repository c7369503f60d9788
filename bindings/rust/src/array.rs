//! Slices as tensors, and tensors that calls have made.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::{self, DLTensor, DType};
use crate::{Arg, Error, Result};

/// A type that tensors have elements of.
///
/// # Safety
/// `DTYPE` describes the memory of `Self`, and every pattern of its bits is a value.
pub unsafe trait Element: Copy + 'static {
    const DTYPE: DType;
}

/// A 16-bit float (IEEE half) by its bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16(pub u16);
/// A bfloat16 by its bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BF16(pub u16);

macro_rules! elements {
    ($($type:ty: $code:literal, $bits:literal;)*) => {
        $(unsafe impl Element for $type {
            const DTYPE: DType = DType { code: $code, bits: $bits, lanes: 1 };
        })*
    };
}
elements! {
    i8: 0, 8; i16: 0, 16; i32: 0, 32; i64: 0, 64;
    u8: 1, 8; u16: 1, 16; u32: 1, 32; u64: 1, 64;
    F16: 2, 16; f32: 2, 32; f64: 2, 64; BF16: 4, 16;
}

const CPU: i32 = 1;

fn tensor_of(data: *mut c_void, len: usize, shape: &[i64], dtype: DType) -> Result<DLTensor> {
    let count = shape.iter().try_fold(1i64, |count, &size| {
        if size < 0 {
            None
        } else {
            count.checked_mul(size)
        }
    });
    if count != i64::try_from(len).ok() {
        let text = format!("a slice of {len} elements cannot be a tensor of shape {shape:?}");
        return Err(Error::new("ValueError", text));
    }
    let ndim = i32::try_from(shape.len()).map_err(|_| Error::new("ValueError", "too many axes"))?;
    Ok(DLTensor {
        data,
        device_type: CPU,
        device_id: 0,
        ndim,
        dtype,
        shape: shape.as_ptr(),
        strides: std::ptr::null(),
        byte_offset: 0,
    })
}

/// A slice as a tensor that is only read.
pub struct View<'a> {
    tensor: DLTensor,
    memory: PhantomData<&'a ()>,
}

impl<'a> View<'a> {
    /// `data` seen as `shape`, rows without gaps; an error where the sizes do not agree.
    pub fn new<T: Element>(data: &'a [T], shape: &'a [i64]) -> Result<View<'a>> {
        let tensor = tensor_of(data.as_ptr() as *mut c_void, data.len(), shape, T::DTYPE)?;
        Ok(View {
            tensor,
            memory: PhantomData,
        })
    }
    pub fn arg(&self) -> Arg<'_> {
        Arg {
            value: abi::EMPTY,
            tensor: Some((self.tensor, false)),
            memory: PhantomData,
        }
    }
}

/// A slice as a tensor that may be written.
pub struct ViewMut<'a> {
    tensor: DLTensor,
    memory: PhantomData<&'a mut ()>,
}

impl<'a> ViewMut<'a> {
    /// `data` seen as `shape`, rows without gaps; an error where the sizes do not agree.
    pub fn new<T: Element>(data: &'a mut [T], shape: &'a [i64]) -> Result<ViewMut<'a>> {
        let tensor = tensor_of(data.as_mut_ptr().cast(), data.len(), shape, T::DTYPE)?;
        Ok(ViewMut {
            tensor,
            memory: PhantomData,
        })
    }
    pub fn arg(&mut self) -> Arg<'_> {
        Arg {
            value: abi::EMPTY,
            tensor: Some((self.tensor, true)),
            memory: PhantomData,
        }
    }
}

/// A tensor that a call has made; ends with its last owner.
pub struct Tensor {
    object: *mut abi::TensorObject,
}

// The count is atomic, and the elements are only read.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes over a reference to a live tensor object.
    pub(crate) unsafe fn own(object: *mut abi::TensorObject) -> Tensor {
        Tensor { object }
    }
    /// One reference more to a live tensor object.
    pub(crate) unsafe fn share(object: *mut abi::TensorObject) -> Tensor {
        (*object).head.counts.fetch_add(1, Relaxed);
        Tensor { object }
    }
    fn tensor(&self) -> &DLTensor {
        // SAFETY: live as long as our reference.
        unsafe { &(*self.object).tensor }
    }
    pub fn dtype(&self) -> DType {
        self.tensor().dtype
    }
    pub fn shape(&self) -> &[i64] {
        let tensor = self.tensor();
        if tensor.ndim == 0 {
            return &[];
        }
        // SAFETY: `ndim` sizes lie there as long as the tensor lives.
        unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
    }
    /// The elements, row after row; an error where they are of another type or have gaps.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        let tensor = self.tensor();
        if tensor.dtype != T::DTYPE {
            let text = format!("elements are {:?}, asked for {:?}", tensor.dtype, T::DTYPE);
            return Err(Error::new("TypeError", text));
        }
        if tensor.device_type != CPU || !self.is_dense() {
            return Err(Error::new(
                "ValueError",
                "the tensor is no dense memory of the CPU",
            ));
        }
        let count: i64 = self.shape().iter().product();
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: dense CPU memory of that many elements, which the object keeps.
        Ok(unsafe {
            let start = tensor.data.cast::<u8>().add(tensor.byte_offset as usize);
            std::slice::from_raw_parts(start.cast(), count as usize)
        })
    }
    /// The tensor as an argument of another call, to be read.
    pub fn arg(&self) -> Arg<'_> {
        Arg {
            value: abi::EMPTY,
            tensor: Some((*self.tensor(), false)),
            memory: PhantomData,
        }
    }
    fn is_dense(&self) -> bool {
        let (tensor, shape) = (self.tensor(), self.shape());
        let mut expected = 1;
        for (axis, &size) in shape.iter().enumerate().rev() {
            // SAFETY: `ndim` strides lie there where there are any.
            if !tensor.strides.is_null()
                && size > 1
                && unsafe { *tensor.strides.add(axis) } != expected
            {
                return false;
            }
            expected *= size;
        }
        true
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { abi::release(self.object.cast()) }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?}, {:?})", self.dtype(), self.shape())
    }
}
