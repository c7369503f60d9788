// core.h: what the files of kdsl.runtime._core share.
#pragma once
#include <kdsl/ffi/runtime.h>

#include "pyapi.h"
#include "values.h"

#define RT_COLD __attribute__((cold, noinline))
#define RT_LIKELY(x) __builtin_expect(!!(x), 1)
#define RT_UNLIKELY(x) __builtin_expect(!!(x), 0)

/// What a parameter is for. UNKNOWN: the function has no kdsl metadata.
typedef enum {
  PARAM_UNKNOWN,
  PARAM_IN,
  PARAM_OUT,
  PARAM_INOUT,
  PARAM_SCALAR,
  PARAM_FLOAT
} ParamKind;

// ---- errors.c: the error slot of this thread, Error objects and Python exceptions ------------

/// Keep (kind, message) until the running call returns -1. Needs no GIL.
void rt_error_set(const char* kind, const char* message);
/// The same with an Error object; steals the reference (NULL: no memory). Needs no GIL.
void rt_error_keep(TVMFFIObject* error);
/// The error of this thread, which has none then; NULL: there was none. Needs no GIL.
TVMFFIObject* rt_error_take(void);
/// Turn the -1 of `name` into the Python exception that its error kind names; returns NULL.
PyObject* rt_error_raise(const char* name);
extern __thread int rt_error_pending __attribute__((tls_model("initial-exec")));
void rt_error_drop(void);
/// Forget an error that nobody asked for.
static inline void rt_error_clear(void) {
  if (RT_UNLIKELY(rt_error_pending)) rt_error_drop();
}
/// An Error object with these texts; NULL: no memory. Needs no GIL.
TVMFFIObject* rt_error_new(const char* kind, size_t kind_size, const char* message, size_t size);
/// An Error object that carries a Python exception; NULL with an exception.
TVMFFIObject* rt_error_of_exception(PyObject* exception);
/// The exception that an Error object carries, or a new one; NULL with another exception.
PyObject* rt_error_to_exception(const TVMFFIObject* error);
int rt_errors_init(PyObject* module);

// ---- object.c: TVM FFI objects ---------------------------------------------------------------

/// A Tensor object of ours: the published 72 bytes, then who owns the memory.
typedef struct {
  TVMFFIObject header;
  DLTensor tensor;
  DLManagedTensorVersioned* managed;
  DLManagedTensor* legacy;
  PyObject* owner;
  int read_only;
} RtTensor;

/// A new compact CPU tensor in 64-byte-aligned memory; NULL with an error in the slot.
RtTensor* rt_tensor_new(int32_t ndim, const int64_t* shape, DLDataType dtype);
/// A Tensor object over memory that `managed`, `legacy` or `owner` keeps; takes that reference.
RtTensor* rt_tensor_wrap(const DLTensor* view, DLManagedTensorVersioned* managed,
                         DLManagedTensor* legacy, PyObject* owner);
/// The same for what a live Python object keeps: takes a new reference to `owner`.
RtTensor* rt_tensor_of_python(const DLTensor* view, PyObject* owner, int read_only);
/// A compact copy of a tensor in host memory; NULL with an error in the slot.
RtTensor* rt_tensor_copy(const DLTensor* tensor);
/// Whether the memory must not be written; known of our own objects only.
int rt_tensor_is_read_only(const TVMFFIObject* object);
/// Whether `object` is one of ours.
int rt_tensor_is_own(const TVMFFIObject* object);
/// Give up a Tensor object for a DLPack one; steals the reference. NULL: no memory.
DLManagedTensorVersioned* rt_tensor_export(TVMFFIObject* object);
int64_t rt_numel(const DLTensor* tensor);

static inline DLTensor* rt_tensor_of(TVMFFIObject* object) { return (DLTensor*)(object + 1); }

// ---- provider.c: process-wide state, ours or libtvm_ffi's ------------------------------------

/// The functions of libtvm_ffi that we use when it is the provider; all NULL when it is not.
typedef struct {
  void (*error_move_from_raised)(TVMFFIObjectHandle* out);
  void (*error_set_raised)(TVMFFIObjectHandle error);
  int (*function_get_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);
  int (*function_set_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                             int override_it);
  int (*register_c_api)(const char* name, void* symbol);
  int (*set_allocator)(DLPackManagedTensorAllocator allocator, int global,
                       DLPackManagedTensorAllocator* out_original);
  int (*set_stream)(int32_t device_type, int32_t device_id, void* stream, void** out_original);
} RtProvider;

/// Replaced as a whole, while other threads look at it.
extern const RtProvider* rt_provider_in_use;
#define rt_provider (*__atomic_load_n(&rt_provider_in_use, __ATOMIC_ACQUIRE))
/// The table that modules get in `__kdsl_rt`.
extern const KdslRuntime rt_table;
/// Python: use_provider(path or None, own=False) -> name of the provider now in use.
PyObject* rt_use_provider(PyObject* self, PyObject* args);
/// Python: provider() -> "tvm_ffi" or "bundled".
PyObject* rt_provider_name(PyObject* self, PyObject* unused);
/// Allocator in the DLPack form, for foreign modules called with NumPy or JAX arrays.
int rt_own_allocator(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                     void (*set_error)(void*, const char*, const char*));

// ---- function.c ------------------------------------------------------------------------------

typedef struct Frame Frame;
typedef struct TypeEntry TypeEntry;

typedef struct {
  PyObject_HEAD RtVectorcall vectorcall;
  PyObject* weak_references;
  TVMFFISafeCallType entry;
  void* handle;             ///< first argument of `entry`; an owned TVM FFI object or NULL
  PyObject* name;           ///< str
  PyObject* library;        ///< Library or None
  PyObject* schema;         ///< kdsl.runtime.schema.Schema; NULL until first needed
  PyObject* names;          ///< tuple of str; NULL when the parameters are unknown
  unsigned char* kinds;     ///< ParamKind of each parameter
  unsigned char* required;  ///< whether a call must give the parameter
  Py_ssize_t max_args;
  char release_gil;
  char owned;        ///< OWNED_TENSORS or 0
  char known;        ///< has kdsl metadata: do the safety checks
  char constant;     ///< has no gradient, and takes tensors that require one
  const char* text;  ///< UTF-8 of name
} Function;

extern PyTypeObject* rt_function_type;
int rt_function_init(PyObject* module);
/// A Python Function over a Function object; steals the reference.
PyObject* rt_function_of(TVMFFIObject* object, PyObject* name);
/// The Function object of a Python Function, a new reference; NULL with an exception.
TVMFFIObject* rt_function_object(PyObject* function);
int rt_take_function(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);

// ---- callback.c: Python callables as Function objects ------------------------------------------

/// A Function object that calls `callable`; NULL with an exception. `keep`: it comes back to Python
/// as a Function, else as the callable itself.
TVMFFIObject* rt_callback_new(PyObject* callable, int keep);
/// The callable of a Function object that rt_callback_new made, borrowed; NULL: another Function.
PyObject* rt_callback_callable(const TVMFFIObject* function);
/// What a Function object is in Python: the callable it was made of, or a Function; consumes.
PyObject* rt_function_to_python(TVMFFIObject* function);
/// Python: convert(callable) -> Function.
PyObject* rt_convert(PyObject* self, PyObject* callable);
int rt_take_callable(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);

// ---- interpreter.c: the way into Python ---------------------------------------------------------

/// The thread state that runs Python; NULL where none does. Any thread's before 3.12.
static inline PyThreadState* rt_running_state(void) {
  if (RT_LIKELY(_PyThreadState_UncheckedGet != NULL)) return _PyThreadState_UncheckedGet();
  return PyThreadState_GetUnchecked ? PyThreadState_GetUnchecked() : NULL;
}
int rt_has_gil(void);
/// Take the GIL on any thread; 0 where Python is not there, or no more.
int rt_python_enter(PyGILState_STATE* gil);
/// Run Python's signal handlers; -1: one raised, and Python's error indicator is set.
int rt_check_signals(void);

// ---- registry.c: functions by name, in the provider ---------------------------------------------

/// Names to Function objects while no library is the provider; then they move there.
int rt_registry_set(const char* name, size_t size, TVMFFIObject* function, int override_it);
/// A new reference; NULL: no such function.
TVMFFIObject* rt_registry_get(const char* name, size_t size);
int rt_registry_remove(const char* name, size_t size);
void rt_registry_move(void);
extern PyMethodDef rt_registry_methods[];
PyObject* rt_function_new(TVMFFISafeCallType entry, void* handle, PyObject* name,
                          PyObject* library);
/// Read the metadata once; -1 with a Python exception.
int rt_function_describe(Function* function);
PyObject* rt_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);

/// The functions that calls of one Dispatcher choose from: see table.h.
typedef struct RtTable RtTable;
int rt_dispatcher_init(PyObject* module);
/// The function for the arguments that the frame has taken; NULL without an exception: none.
const Function* rt_table_find(const RtTable* table, const Frame* frame);
/// Call the function that the table has for these arguments, which are taken as those of `any`:
/// all in a table have the same parameters.
/// NULL without an exception: there is none, or they are not to be taken.
PyObject* rt_call_from(const RtTable* table, const Function* any, PyObject* const* objects,
                       size_t nargsf, PyObject* keywords);

// ---- frame.c: what one call needs ------------------------------------------------------------

typedef enum { HOLD_OBJECT, HOLD_BUFFER, HOLD_FFI, HOLD_BLOCK } HoldKind;

typedef struct {
  HoldKind kind;
  union {
    PyObject* object;
    RtBuffer buffer;
    void* pointer;
  };
} Hold;

#define HOLDS_PER_CHUNK 8
typedef struct HoldChunk {
  struct HoldChunk* next;
  int count;
  Hold items[HOLDS_PER_CHUNK];
} HoldChunk;

#define FRAME_ARGS 16
#define OWNED_TENSORS 1  // pass Tensor objects instead of views
#define OWNED_VALUES 2   // no views at all, not even of strings: elements of an Array
#define FRAME_STRIDES 64
#define FRAME_RENEWED 8

struct Frame {
  const Function* function;
  PyObject* const* objects;
  Py_ssize_t count;
  TVMFFIAny* args;
  DLTensor* views;
  int64_t* strides;
  int strides_left;
  int owned;  ///< how much of the arguments a callee may keep, one of the values below
  Family family;
  const DLPackExchangeAPI* api;  ///< of the first tensor, when its family is FAMILY_EXCHANGE
  PyObject* import;              ///< as in ArrayKind
  int32_t device_type;
  int32_t device_id;
  void* stream;
  struct Frame* outer;
  PyThreadState* released;  ///< of this thread, while native code runs without the GIL
  const Frame* parent;  ///< of objects in a container: the frame that this one is an argument of
  Py_ssize_t parent_index;  ///< which argument
  int renewed_count;
  struct {
    Py_ssize_t index;
    RtTensor* tensor;
  } renewed[FRAME_RENEWED];  ///< copies that stand in for arguments which must not be written
  HoldChunk* holds;
  HoldChunk first_holds;
};

/// The call that runs in this thread.
extern __thread Frame* rt_current __attribute__((tls_model("initial-exec")));

Hold* rt_hold(Frame* frame, HoldKind kind);
/// Room for `ndim` strides that lives as long as the frame; NULL with MemoryError.
int64_t* rt_strides(Frame* frame, int ndim);
void rt_frame_release(Frame* frame);

// ---- argument conversion ---------------------------------------------------------------------

/// One Python type and how its instances are taken.
struct TypeEntry {
  PyTypeObject* type;
  int (*take)(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
  const TypeEntry* next;
  const DLPackExchangeAPI* api;
  PyObject* import;  ///< the from_dlpack of its module, or NULL
  int is_torch;
};

// types.c
const TypeEntry* rt_type_entry(PyTypeObject* type);
/// A loaded module's attribute, new reference; NULL without an exception when either is missing.
PyObject* rt_loaded(const char* module, const char* attribute);

// scalars.c
const TypeEntry* rt_scalar_entry(PyTypeObject* type);
const TypeEntry* rt_number_entry(PyTypeObject* type);

// torch.c
int rt_take_exchange(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
/// Learn the type: 1 it speaks the exchange protocol, 0 it does not, -1 exception.
int rt_exchange_learn(PyTypeObject* type, TypeEntry* entry);

/// Whether private layouts may be read at all, when they are found good.
extern int rt_mirrors_allowed;
/// Whether the layouts that rt_take_... trust were found good; -1 before the first array.
int rt_torch_is_mirrored(void);
int rt_numpy_is_mirrored(void);

// torch_bits.c
typedef struct {
  char requires_grad;
  char lazy;  ///< conjugated or negated when read, not in memory
} TorchBits;
/// Find out where the bits are; 0 when that is in doubt.
int rt_torch_bits_find(void);
/// Valid after rt_torch_bits_find() gave 1, for tensors of Torch's own layout.
TorchBits rt_torch_bits(PyObject* tensor);
int rt_torch_is_lazy(PyObject* tensor);
/// Its dispatch keys, and its address in C++ (an at::Tensor*).
uint64_t rt_torch_keys(PyObject* tensor);
void* rt_torch_handle(PyObject* tensor);

// torch_view.c
/// Find out whether tensors can be read the short way; after rt_torch_bits_find() gave 1.
void rt_torch_view_find(const DLPackExchangeAPI* api);
/// Read a plain CPU tensor; 0: it is none, or its dtype was not learned yet.
int rt_torch_view(PyObject* tensor, DLTensor* out);
/// What the exchange protocol said of a tensor's dtype.
void rt_torch_learn_dtype(PyObject* tensor, DLDataType dtype);

// numpy.c
int rt_take_numpy(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
int rt_numpy_learn(PyTypeObject* type, TypeEntry* entry);
/// Make an ndarray over a Tensor object; steals the reference.
PyObject* rt_to_numpy(TVMFFIObject* tensor);

// buffer.c
int rt_take_jax(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
int rt_take_dlpack(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
int rt_take_buffer(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
/// The same for NumPy arrays.
int rt_take_numpy_buffer(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry);
PyObject* rt_import_of(PyTypeObject* type);
int rt_is_jax(PyTypeObject* type);
int rt_has_buffer(PyTypeObject* type);

/// Pass frame->views[index], after a look at its memory and at whether it may be written.
int rt_put_view(Frame* frame, Py_ssize_t index, int writable);
/// Pass an object; steals the reference (NULL: MemoryError).
int rt_put_object(Frame* frame, Py_ssize_t index, TVMFFIObject* object);
/// Pass a Tensor object; steals the reference (NULL: MemoryError).
int rt_put_owned(Frame* frame, Py_ssize_t index, RtTensor* tensor);
/// Pass a copy of frame->views[index], which the callee may write.
int rt_renew(Frame* frame, Py_ssize_t index);
/// `answer` and the copies that were passed, in the order of the parameters; steals `answer`.
PyObject* rt_with_renewed(Frame* frame, PyObject* answer);
/// Fill missing strides of frame->views[index].
int rt_complete_strides(Frame* frame, Py_ssize_t index);

/// Raise about one argument in the house style; `problem` is a key of messages.PROBLEMS and
/// a pending exception becomes the cause. Always returns -1.
int rt_argument_error(Frame* frame, Py_ssize_t index, const char* problem);

static inline ParamKind rt_param_kind(const Frame* frame, Py_ssize_t index) {
  const Function* fn = frame->function;
  return fn->kinds && index < fn->max_args ? (ParamKind)fn->kinds[index] : PARAM_UNKNOWN;
}

static inline void rt_note_family(Frame* frame, Family family, const DLPackExchangeAPI* api) {
  if (frame->family == FAMILY_NONE) {
    frame->family = family;
    frame->api = api;
    frame->import = NULL;
  }
}

static inline void rt_note_kind(Frame* frame, const ArrayKind* kind) {
  rt_note_family(frame, kind->family, kind->api);
  if (frame->family == FAMILY_OTHER && !frame->import) frame->import = kind->import;
}

// ---- results.c, tensor.c, library.c ----------------------------------------------------------

/// Convert a result; consumes it. NULL with an exception.
PyObject* rt_result(Frame* frame, TVMFFIAny* value);
int rt_tensor_init(PyObject* module);
/// A Python Tensor over a Tensor object; steals the reference. `stream`: on which it is written.
PyObject* rt_tensor_object(TVMFFIObject* tensor, void* stream);
const TypeEntry* rt_tensor_entry(PyTypeObject* type);
PyObject* rt_from_dlpack(PyObject* self, PyObject* array);
/// The struct-module letter of a dtype, NULL when there is none.
const char* rt_dtype_format(DLDataType dtype);
/// A capsule "dltensor_versioned" (or "dltensor") that owns the tensor; steals the reference.
PyObject* rt_tensor_capsule(TVMFFIObject* tensor, int versioned);
int rt_library_init(PyObject* module);
TVMFFISafeCallType rt_library_entry(PyObject* library, const char* prefix, const char* name);

/// An attribute of one of our own Python modules; new reference.
PyObject* rt_import(const char* module, const char* attribute);
