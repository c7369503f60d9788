// device.c: a framework whose arrays lie on a device (in truth in host memory), as an extension
// module of Python; and packed functions that work on them. For tests of streams and allocators.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <kdsl/ffi/runtime.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret); \
  int __tvm_ffi_##name(                                                                          \
      __attribute__((unused)) void* self, __attribute__((unused)) const TVMFFIAny* args,         \
      __attribute__((unused)) int32_t count, __attribute__((unused)) TVMFFIAny* ret)

EXPORT const KdslRuntime* __kdsl_rt;

static struct {
  long live, allocated, imported, asked;
  int fails;
  void* stream;
} state;

// ---- the framework ----------------------------------------------------------------------------

typedef struct {
  PyObject_HEAD DLManagedTensorVersioned* managed;
} Array;

static PyTypeObject* array_type;

typedef struct {
  DLManagedTensorVersioned managed;
  int64_t axes[16];
} Block;

static void drop_block(DLManagedTensorVersioned* managed) {
  --state.live;
  free(managed->dl_tensor.data);
  free(managed);
}

static DLManagedTensorVersioned* new_block(const DLTensor* like) {
  Block* block = calloc(1, sizeof *block);
  int64_t count = 1;
  block->managed.version = (DLPackVersion){1, 3};
  block->managed.deleter = drop_block;
  block->managed.dl_tensor = *like;
  block->managed.dl_tensor.shape = block->axes;
  block->managed.dl_tensor.strides = block->axes + 8;
  for (int i = like->ndim - 1; i >= 0; --i) {
    block->axes[i] = like->shape[i];
    block->axes[8 + i] = count;
    count *= like->shape[i];
  }
  block->managed.dl_tensor.byte_offset = 0;
  block->managed.dl_tensor.data = malloc((size_t)count * like->dtype.bits / 8 + 1);
  ++state.live;
  return &block->managed;
}

static int allocate(DLTensor* like, DLManagedTensorVersioned** out, void* context,
                    void (*set_error)(void*, const char*, const char*)) {
  if (state.fails) {
    set_error(context, "MemoryError", "the device is full");
    return -1;
  }
  ++state.allocated;
  *out = new_block(like);
  return 0;
}

static void drop_owner(DLManagedTensorVersioned* managed) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject*)managed->manager_ctx);
  PyGILState_Release(gil);
  free(managed);
}

static int from_object(void* object, DLManagedTensorVersioned** out) {
  DLManagedTensorVersioned* managed = calloc(1, sizeof *managed);
  *managed = *((Array*)object)->managed;
  managed->manager_ctx = object;
  managed->deleter = drop_owner;
  Py_INCREF((PyObject*)object);
  *out = managed;
  return 0;
}

static int to_object(DLManagedTensorVersioned* managed, void** out) {
  Array* array = PyObject_New(Array, array_type);
  array->managed = managed;
  ++state.imported;
  *out = array;
  return 0;
}

static int view_of_object(void* object, DLTensor* out) {
  *out = ((Array*)object)->managed->dl_tensor;
  return 0;
}

static int current_stream(DLDeviceType type, int32_t id, void** out) {
  (void)type, (void)id;
  ++state.asked;
  *out = state.stream;
  return 0;
}

static DLPackExchangeAPI exchange = {{{1, 3}, NULL}, allocate,       from_object,
                                     to_object,      view_of_object, current_stream};

static void array_dealloc(PyObject* self) {
  DLManagedTensorVersioned* managed = ((Array*)self)->managed;
  PyTypeObject* type = Py_TYPE(self);
  if (managed->deleter) managed->deleter(managed);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject* array_list(PyObject* self, PyObject* unused) {
  (void)unused;
  const DLTensor* t = &((Array*)self)->managed->dl_tensor;
  PyObject* list = PyList_New(t->shape[0]);
  for (int64_t i = 0; i < t->shape[0]; ++i) {
    const float* item = (const float*)((char*)t->data + t->byte_offset) + i * t->strides[0];
    PyList_SetItem(list, i, PyFloat_FromDouble(*item));
  }
  return list;
}

static PyMethodDef array_methods[] = {{"tolist", array_list, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot array_slots[] = {
    {Py_tp_dealloc, array_dealloc}, {Py_tp_methods, array_methods}, {0, NULL}};
static PyType_Spec array_spec = {"device.Array", sizeof(Array), 0, Py_TPFLAGS_DEFAULT, array_slots};

// array(device type, device id, value, ...): a vector of f32.
static PyObject* make_array(PyObject* self, PyObject* args) {
  (void)self;
  int64_t size = PyTuple_Size(args) - 2;
  DLTensor like = {.device = {(DLDeviceType)PyLong_AsLong(PyTuple_GetItem(args, 0)),
                              (int)PyLong_AsLong(PyTuple_GetItem(args, 1))},
                   .ndim = 1,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = &size};
  DLManagedTensorVersioned* managed = new_block(&like);
  for (int64_t i = 0; i < size; ++i) {
    ((float*)managed->dl_tensor.data)[i] =
        (float)PyFloat_AsDouble(PyTuple_GetItem(args, (Py_ssize_t)i + 2));
  }
  void* object = NULL;
  to_object(managed, &object);
  --state.imported;
  return object;
}

static PyObject* set_state(PyObject* self, PyObject* args) {
  (void)self;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "Kp", &stream, &state.fails)) return NULL;
  state.stream = (void*)(uintptr_t)stream;
  state.allocated = state.imported = state.asked = 0;
  Py_RETURN_NONE;
}

static PyObject* counts(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(llll)", state.live, state.allocated, state.imported, state.asked);
}

static PyMethodDef methods[] = {{"array", make_array, METH_VARARGS, NULL},
                                {"set_state", set_state, METH_VARARGS, NULL},
                                {"counts", counts, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "device", .m_size = -1,
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit_device(void) {
  PyObject* module = PyModule_Create(&definition);
  array_type = (PyTypeObject*)PyType_FromSpec(&array_spec);
  PyObject* capsule = PyCapsule_New(&exchange, "dlpack_exchange_api", NULL);
  PyObject_SetAttrString((PyObject*)array_type, "__dlpack_c_exchange_api__", capsule);
  Py_DECREF(capsule);
  PyObject_SetAttrString(module, "Array", (PyObject*)array_type);
  return module;
}

// ---- packed functions -------------------------------------------------------------------------

static const DLTensor* tensor_of(const TVMFFIAny* arg) {
  if (arg->type_index == kTVMFFIDLTensorPtr) return arg->v_ptr;
  if (arg->type_index == kTVMFFITensor) return &((const KdslTensorObject*)arg->v_obj)->tensor;
  return NULL;
}

static int give_int(TVMFFIAny* ret, void* value) {
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = (int64_t)(intptr_t)value};
  return 0;
}

// The stream for (device type, device id) as the module sees it.
PACKED(stream) {
  int32_t type = (int32_t)args[0].v_int64, id = (int32_t)args[1].v_int64;
  return give_int(ret, __kdsl_rt->stream(type, id));
}

// The stream for the device of the last argument.
PACKED(stream_of_last) {
  DLDevice device = tensor_of(&args[count - 1])->device;
  return give_int(ret, __kdsl_rt->stream(device.device_type, device.device_id));
}

static int doubled(const TVMFFIAny* args, TVMFFIAny* ret) {
  const DLTensor* x = tensor_of(&args[0]);
  KdslTensorObject* made;
  if (__kdsl_rt->alloc_tensor(x, (void**)&made)) return -1;
  const float* from = (const float*)((char*)x->data + x->byte_offset);
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    ((float*)made->tensor.data)[i] = 2 * from[i * x->strides[0]];
  }
  *ret = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = &made->head};
  return 0;
}

PACKED(doubled) { return doubled(args, ret); }

// The same with metadata, which says that views will do.
PACKED(_metadata_known) {
  static KdslStringObject object;
  static const char text[] =
      "{\"kdsl\":{\"schema\":1,\"version\":\"0\"},\"name\":\"known\",\"signature\":\"known(x: "
      "f32[N])\",\"params\":[{\"name\":\"x\",\"kind\":\"in\",\"type\":\"tensor\",\"dtype\":\"f32\","
      "\"shape\":[\"N\"]}],\"dims\":[\"N\"],\"dtypes\":{}}";
  object.head = (TVMFFIObject){KDSL_REF_COUNT_ONE + 1, kTVMFFIStr, 0, NULL};
  object.bytes = (TVMFFIByteArray){text, sizeof text - 1};
  *ret = (TVMFFIAny){.type_index = kTVMFFIStr, .v_obj = &object.head};
  return 0;
}
PACKED(known) { return doubled(args, ret); }

// Call argument 0 with the rest.
PACKED(call) {
  const TVMFFIFunctionCell* cell = (const TVMFFIFunctionCell*)(args[0].v_obj + 1);
  return cell->safe_call(args[0].v_obj, args + 1, count - 1, ret);
}

PACKED(same) {
  *ret = args[0];
  if (ret->type_index >= kTVMFFIStaticObjectBegin) {
    __atomic_fetch_add(&ret->v_obj->combined_ref_count, 1, __ATOMIC_RELAXED);
  }
  return 0;
}

// ---- a driver ---------------------------------------------------------------------------------

// What a CUDA driver would be asked: events by their number, waits as (stream, event's stream).
static struct {
  void* event_stream[64];
  int events, destroyed;
  struct {
    void *stream, *on;
  } waits[64];
  int wait_count;
} driver;

EXPORT int cuEventCreate(void** event, unsigned flags);
int cuEventCreate(void** event, unsigned flags) {
  *event = (void*)(intptr_t)++driver.events;
  return flags != 2;
}
EXPORT int cuEventRecord(void* event, void* stream);
int cuEventRecord(void* event, void* stream) {
  driver.event_stream[(intptr_t)event] = stream;
  return 0;
}
EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned flags);
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  driver.waits[driver.wait_count].stream = stream;
  driver.waits[driver.wait_count++].on = driver.event_stream[(intptr_t)event];
  return flags != 0;
}
EXPORT int cuEventDestroy_v2(void* event);
int cuEventDestroy_v2(void* event) {
  ++driver.destroyed;
  return event == NULL;
}

// The stream of wait number n, or the one that it waited for; -1: there was no such wait.
PACKED(waited) {
  int n = (int)args[0].v_int64;
  if (n >= driver.wait_count) return give_int(ret, (void*)-1);
  return give_int(ret, args[1].v_int64 ? driver.waits[n].on : driver.waits[n].stream);
}
PACKED(leaked_events) { return give_int(ret, (void*)(intptr_t)(driver.events - driver.destroyed)); }
