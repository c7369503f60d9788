// values.h: what a value is in Python and in TVM FFI; each kind of object has a file of its own.
//
// Any -> Python is one table by type index (to_python.c); Python -> Any is one table by Python
// type (types.c, from_python.c). Values made here own all they hold; `consumes` means that the
// caller's reference is gone afterwards, also after a failure.
#pragma once
#include <kdsl/ffi/runtime.h>

#include "pyapi.h"

typedef struct Frame Frame;
typedef struct TypeEntry TypeEntry;

/// Which framework an array belongs to; it decides what results come back as.
typedef enum { FAMILY_NONE, FAMILY_EXCHANGE, FAMILY_NUMPY, FAMILY_JAX, FAMILY_OTHER } Family;

/// What tensors become in Python: the kind of the first array that a call was given.
typedef struct {
  Family family;
  const DLPackExchangeAPI* api;  ///< FAMILY_EXCHANGE only
  PyObject* import;              ///< FAMILY_OTHER: its from_dlpack, or NULL; never dropped
  void* stream;                  ///< on which tensors of a device are being written
} ArrayKind;

// ---- object.c: memory and reference counts ----------------------------------------------------

/// A zeroed object of `size` bytes with one reference; NULL: no memory.
void* rt_object_new(size_t size, int32_t type_index, void (*deleter)(void* self, int flags));
/// What a deleter does when no weak reference is left.
void rt_object_free(void* object);
void rt_incref(void* object);
void rt_decref(void* object);
/// Take or drop the reference that a value holds, if any; a dropped one is None.
void rt_value_retain(const TVMFFIAny* value);
void rt_value_release(TVMFFIAny* value);
/// Drop a reference to a Python object on a thread that Python may never have seen.
void rt_python_release(PyObject* object);

// ---- strings.c --------------------------------------------------------------------------------

/// A String (kTVMFFIStr) or Bytes object, NUL terminated; NULL: no memory.
TVMFFIObject* rt_string_new(int32_t type_index, const char* data, size_t size);
/// Text as an owned value, inline up to 7 bytes; -1 with MemoryError.
int rt_string_value(int32_t type_index, const char* data, size_t size, TVMFFIAny* out);
/// The bytes of a string or bytes value of any kind, or of `char*`; borrowed.
TVMFFIByteArray rt_bytes_of(const TVMFFIAny* value);
/// The str of a string value, which is consumed; TypeError for any other value.
PyObject* rt_text_of(TVMFFIAny* value);

// ---- sequence.c: Array and List ---------------------------------------------------------------

/// An Array or List with `size` elements, all None; NULL: no memory.
TVMFFIObject* rt_sequence_new(int32_t type_index, Py_ssize_t size);
static inline TVMFFISeqCell* rt_sequence(const TVMFFIObject* object) {
  return (TVMFFISeqCell*)(object + 1);
}
/// Change a List and run nobody's code; `at` is within bounds. What goes is the caller's: `out` has
/// room for it. -1: no memory, and the value is the caller's still.
int rt_list_put(TVMFFIObject* list, int64_t at, TVMFFIAny value);
TVMFFIAny rt_list_swap(TVMFFIObject* list, int64_t at, TVMFFIAny value);
void rt_list_take(TVMFFIObject* list, int64_t begin, int64_t count, TVMFFIAny* out);
/// Change a List; `value` is consumed, `at` is within bounds. -1: no memory.
int rt_list_insert(TVMFFIObject* list, int64_t at, TVMFFIAny value);
int rt_list_erase(TVMFFIObject* list, int64_t begin, int64_t end);
void rt_list_replace(TVMFFIObject* list, int64_t at, TVMFFIAny value);

// ---- map.c: Map and Dict ----------------------------------------------------------------------

/// Content of a Map or Dict. A set top bit of `slots`: up to 4 (key, value) pairs in a row at
/// `data`; else blocks of 16 slots, see map.c, and the fields from `shift` on count.
typedef struct {
  void* data;
  uint64_t size;
  uint64_t slots;
  void (*data_deleter)(void*);
  uint32_t shift;
  uint64_t first;
  uint64_t last;
} RtMapCell;

typedef struct {
  TVMFFIObject head;
  RtMapCell map;
} RtMapObject;

/// An empty Map or Dict with room for `expected` pairs; NULL: no memory.
TVMFFIObject* rt_map_new(int32_t type_index, size_t expected);
/// The value of a key, borrowed; NULL: there is none.
TVMFFIAny* rt_map_find(const TVMFFIObject* map, const TVMFFIAny* key);
/// Put a pair, both consumed; -1: no memory.
int rt_map_put(TVMFFIObject* map, TVMFFIAny key, TVMFFIAny value);
/// Put a pair and run nobody's code; what is in `pair` then is the caller's. -1: no memory.
int rt_map_swap(TVMFFIObject* map, TVMFFIAny pair[2]);
/// Take out a pair, key and value, which are the caller's. 0: there is none.
int rt_map_take(TVMFFIObject* map, const TVMFFIAny* key, TVMFFIAny out[2]);
void rt_map_clear(TVMFFIObject* map);
/// All pairs of a map, outside of it; to be dropped.
typedef struct {
  RtMapCell map;
  TVMFFIAny few[8];
} RtMapContent;
void rt_map_take_all(TVMFFIObject* map, RtMapContent* out);
void rt_map_drop(RtMapContent* content);
/// Pairs in order of insertion: start with position 0; 0 when there is no more. Borrowed.
typedef struct {
  uint64_t at;
  int begun;
  const TVMFFIAny* key;
  TVMFFIAny* value;
} RtMapCursor;
int rt_map_next(const TVMFFIObject* map, RtMapCursor* cursor);
/// Whether a value can be a key: the hash of some objects is known to their makers only.
int rt_is_key(const TVMFFIAny* value);
/// Whether two values are one key to a Map.
int rt_same_key(const TVMFFIAny* a, const TVMFFIAny* b);

// ---- opaque.c: pointers, streams and Python objects as they are -------------------------------

/// A Python object as a value; takes a new reference. NULL: no memory.
TVMFFIObject* rt_opaque_new(PyObject* object);
PyObject* rt_opaque_to_python(const TVMFFIObject* object);
/// ctypes.c_void_p.
PyObject* rt_pointer_to_python(void* pointer);
/// What is taken as a pointer: ctypes.c_void_p, a stream, what has `__tvm_ffi_opaque_ptr__`.
const TypeEntry* rt_pointer_entry(PyTypeObject* type);
int rt_take_opaque(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);

// ---- plain.c: dtypes, devices, shapes, exceptions ---------------------------------------------

PyObject* rt_dtype_to_python(DLDataType dtype);
PyObject* rt_device_to_python(DLDevice device);
PyObject* rt_shape_to_python(const int64_t* sizes, Py_ssize_t count);
PyObject* rt_tuple_of(const int64_t* values, Py_ssize_t count);
const TypeEntry* rt_plain_entry(PyTypeObject* type);
int rt_take_exception(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);

// ---- to_python.c ------------------------------------------------------------------------------

/// A Python object for a value, which is consumed. Views that were lent are copied.
PyObject* rt_to_python(const ArrayKind* kind, TVMFFIAny* value);
/// The same for a value that somebody else holds.
PyObject* rt_copy_to_python(const ArrayKind* kind, const TVMFFIAny* value);
/// The kind of a call, and of the one that runs in this thread: FAMILY_NONE outside of calls.
ArrayKind rt_frame_kind(const Frame* frame);
ArrayKind rt_current_kind(void);

// ---- collect.c: containers of Python, and values outside of calls -----------------------------

/// An owned value for a Python object; `kind` becomes that of the first array in it, where it was
/// FAMILY_NONE. -1 with an exception, and None.
int rt_from_python(PyObject* object, TVMFFIAny* out, ArrayKind* kind);
/// A frame that stands for no call, in which owned values are made; -1 with an exception.
int rt_frame_outside(Frame* frame, const ArrayKind* kind);
/// A container of a tuple's elements, which are in argument `index` of `outer`; a map's keys and
/// values come in turn. NULL with an exception.
TVMFFIObject* rt_collect_sequence(Frame* outer, Py_ssize_t index, PyObject* tuple, int32_t type);
TVMFFIObject* rt_collect_map(Frame* outer, Py_ssize_t index, PyObject* flat, int32_t type);
const TypeEntry* rt_container_entry(PyTypeObject* type);

// ---- handle.c: Python objects that hold a TVM FFI object --------------------------------------

int rt_handle_init(PyObject* module);
/// The Python object for an object of any type; consumes the reference.
PyObject* rt_handle_new(const ArrayKind* kind, TVMFFIObject* object);
/// What an instance of kdsl.runtime.Object (or a subclass) holds, borrowed; NULL: it is none.
TVMFFIObject* rt_handle_object(PyObject* handle);
const TypeEntry* rt_handle_entry(PyTypeObject* type);

// ---- peer.c: apache-tvm-ffi's Python package --------------------------------------------------

/// What is taken as the object that it holds.
const TypeEntry* rt_peer_entry(PyTypeObject* type);
/// An object of that package over ours; NULL with an exception.
PyObject* rt_peer_object(TVMFFIObject* object);

// ---- stream.c: the streams of this thread -----------------------------------------------------

/// Python: set_stream(device type, id, handle or None) -> what was set before, or None.
PyObject* rt_set_stream(PyObject* self, PyObject* arguments);
/// Python: get_stream(device type, id) -> handle.
PyObject* rt_get_stream(PyObject* self, PyObject* arguments);
/// Python: stream_handle(object) -> int, or None when it is no stream.
PyObject* rt_stream_handle(PyObject* self, PyObject* object);
/// What use_stream says in this thread; 0: nothing.
int rt_stream_said(int32_t device_type, int32_t device_id, void** stream);
/// The stream for a device now, outside of the arguments of a call.
void* rt_stream_of(int32_t device_type, int32_t device_id);
/// Note the device of a call's first tensor that is on one, and the stream; `api` may be NULL. -1
/// with an exception.
int rt_note_device(Frame* frame, DLDevice device, const DLPackExchangeAPI* api);
/// Let stream `after` wait for what is on `before`; -1 with BufferError.
int rt_stream_wait(DLDevice device, void* before, void* after);
/// The stream that a consumer gives to `__dlpack__`, and whether it wants to wait; -1: exception.
int rt_consumer_stream(DLDevice device, PyObject* stream, void** out, int* waits);
/// What to give a producer's `__dlpack__` for a stream of ours; None for devices without.
PyObject* rt_stream_for_producer(DLDevice device, void* stream);
/// Whether instances are streams: they have `__cuda_stream__`, `cuda_stream` or are CuPy's.
int rt_is_stream(PyTypeObject* type);
/// A stream's handle as an int, new reference; NULL with an exception.
PyObject* rt_stream_address(PyObject* stream);

// ---- copy.c: tensors in host memory -----------------------------------------------------------

/// Whether the CPU reads and writes memory there as its own.
static inline int rt_is_host(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
         device.device_type == kDLROCMHost || device.device_type == kDLCUDAManaged;
}
/// Whether the elements lie row after row without gaps.
int rt_is_compact(const DLTensor* tensor);
