// torch.c: arrays whose class offers the C exchange protocol of DLPack; Torch above all.
#include "core.h"

// Torch objects that the checks need, found when the first Torch type is learned.
static struct {
  PyTypeObject* tensor;
  PyObject* dispatch;  // torch.Tensor.__torch_dispatch__: what a plain subclass inherits
  int has_bits;        // rt_torch_bits works
} torch;

static const unsigned floating = 1u << kDLFloat | 1u << kDLBfloat | 1u << kDLComplex |
                                 1u << kDLFloat8_e4m3fn | 1u << kDLFloat8_e4m3fnuz |
                                 1u << kDLFloat8_e5m2 | 1u << kDLFloat8_e5m2fnuz;

static int yes(PyObject* answer) {
  int is = answer ? answer == Py_True : -1;
  Py_XDECREF(answer);
  return is;
}

static int ask(PyObject* object, const char* method) {
  return yes(PyObject_CallMethod(object, method, NULL));
}

static int grad_enabled(void) {
  PyObject* asks = rt_loaded("torch", "is_grad_enabled");
  int enabled = asks ? yes(PyObject_CallObject(asks, NULL)) : 1;
  Py_XDECREF(asks);
  return enabled;
}

RT_COLD static int check_grad(Frame* frame, Py_ssize_t index, PyObject* object) {
  int wants = yes(PyObject_GetAttrString(object, "requires_grad"));
  if (wants > 0) wants = grad_enabled();
  if (wants <= 0) return wants;
  return rt_argument_error(frame, index, "requires_grad");
}

RT_COLD static int check_lazy(Frame* frame, Py_ssize_t index, PyObject* object) {
  int is = ask(object, "is_conj");
  if (is) return is < 0 ? -1 : rt_argument_error(frame, index, "conj");
  is = ask(object, "is_neg");
  if (is) return is < 0 ? -1 : rt_argument_error(frame, index, "neg");
  return 0;
}

static inline int check_torch(Frame* frame, Py_ssize_t index, PyObject* object,
                              const DLTensor* view) {
  if (!(floating >> view->dtype.code & 1)) return 0;
  // Foreign functions take what they always took; only a wrong value is never passed on.
  int asks = frame->function->known && !frame->function->constant;
  TorchBits bits = {1, 1};  // all of it possible
  if (RT_LIKELY(torch.has_bits)) {
    if (asks)
      bits = rt_torch_bits(object);
    else
      bits.lazy = (char)rt_torch_is_lazy(object);
  }
  if (RT_UNLIKELY(bits.requires_grad && asks) && check_grad(frame, index, object)) return -1;
  return RT_UNLIKELY(bits.lazy) ? check_lazy(frame, index, object) : 0;
}

static void drop_managed(PyObject* capsule) {
  DLManagedTensorVersioned* managed = PyCapsule_GetPointer(capsule, NULL);
  if (managed && managed->deleter) managed->deleter(managed);
}

// The view of a producer that offers only owned tensors: keep it in a capsule for the call.
static int view_of_managed(Frame* frame, PyObject* object, const DLPackExchangeAPI* api,
                           DLTensor* view) {
  DLManagedTensorVersioned* managed = NULL;
  if (api->managed_tensor_from_py_object_no_sync(object, &managed)) return -1;
  Hold* hold = rt_hold(frame, HOLD_OBJECT);
  if (hold) hold->object = PyCapsule_New(managed, NULL, drop_managed);
  if (!hold || !hold->object) {
    if (managed->deleter) managed->deleter(managed);
    return -1;
  }
  *view = managed->dl_tensor;
  return 0;
}

static int put_owned(Frame* frame, Py_ssize_t index, PyObject* object,
                     const DLPackExchangeAPI* api) {
  DLManagedTensorVersioned* managed = NULL;
  if (api->managed_tensor_from_py_object_no_sync(object, &managed)) {
    return rt_argument_error(frame, index, "export");
  }
  RtTensor* tensor = rt_tensor_wrap(&managed->dl_tensor, managed, NULL, NULL);
  if (!tensor && managed->deleter) managed->deleter(managed);
  return rt_put_owned(frame, index, tensor);
}

// The way of plain CPU tensors: nothing of them can be lazy, nor elsewhere.
static inline int take_plain(Frame* frame, Py_ssize_t index, PyObject* object,
                             const TypeEntry* entry) {
  const Function* fn = frame->function;
  DLTensor* view = &frame->views[index];
  rt_note_family(frame, FAMILY_EXCHANGE, entry->api);
  if (fn->known && !fn->constant && floating >> view->dtype.code & 1 &&
      RT_UNLIKELY(rt_torch_bits(object).requires_grad) && check_grad(frame, index, object)) {
    return -1;
  }
  if (rt_put_view(frame, index, 1)) return -1;
  return RT_UNLIKELY(frame->owned) ? put_owned(frame, index, object, entry->api) : 0;
}

int rt_take_exchange(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  const DLPackExchangeAPI* api = entry->api;
  DLTensor* view = &frame->views[index];
  if (entry->is_torch && RT_LIKELY(rt_torch_view(object, view))) {
    return take_plain(frame, index, object, entry);
  }
  int failed = RT_LIKELY(api->dltensor_from_py_object_no_sync != NULL)
                   ? api->dltensor_from_py_object_no_sync(object, view)
                   : view_of_managed(frame, object, api, view);
  if (RT_UNLIKELY(failed)) return rt_argument_error(frame, index, "export");
  if (RT_UNLIKELY(!view->strides) && rt_complete_strides(frame, index)) return -1;
  rt_note_family(frame, FAMILY_EXCHANGE, api);
  if (RT_UNLIKELY(view->device.device_type != kDLCPU) && rt_note_device(frame, view->device, api)) {
    return rt_argument_error(frame, index, "export");
  }
  if (entry->is_torch) {
    if (RT_UNLIKELY(check_torch(frame, index, object, view))) return -1;
    rt_torch_learn_dtype(object, view->dtype);
  }
  if (RT_UNLIKELY(frame->owned)) {
    if (rt_put_view(frame, index, 1)) return -1;
    return put_owned(frame, index, object, api);
  }
  return rt_put_view(frame, index, 1);
}

// A subclass that intercepts operators (FakeTensor, DTensor, ...) has no data of its own.
static int take_intercepting(Frame* frame, Py_ssize_t index, PyObject* object,
                             const TypeEntry* entry) {
  (void)object, (void)entry;
  return rt_argument_error(frame, index, "subclass");
}

static void find_torch(void) {
  torch.tensor = (PyTypeObject*)rt_loaded("torch", "Tensor");
  if (!torch.tensor) return;
  torch.dispatch = PyObject_GetAttrString((PyObject*)torch.tensor, "__torch_dispatch__");
  if (!torch.dispatch) PyErr_Clear();
  torch.has_bits = rt_mirrors_allowed && rt_torch_bits_find();
}

int rt_torch_is_mirrored(void) { return torch.tensor ? torch.has_bits : -1; }

static int is_torch(PyTypeObject* type) {
  PyTypeObject* tensor = (PyTypeObject*)rt_loaded("torch", "Tensor");
  int is = tensor && PyType_IsSubtype(type, tensor);
  Py_XDECREF((PyObject*)tensor);
  if (is && !torch.tensor) find_torch();
  return is;
}

int rt_exchange_learn(PyTypeObject* type, TypeEntry* entry) {
  entry->is_torch = is_torch(type);
  if (entry->is_torch && type != torch.tensor && torch.dispatch) {
    PyObject* dispatch = PyObject_GetAttrString((PyObject*)type, "__torch_dispatch__");
    if (!dispatch) return -1;
    int plain = dispatch == torch.dispatch;
    Py_DECREF(dispatch);
    if (!plain) {
      entry->take = take_intercepting;
      return 1;
    }
  }
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  if (!capsule) {
    PyErr_Clear();
    return 0;
  }
  const DLPackExchangeAPI* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule);  // the class keeps it
  if (!api) PyErr_Clear();
  while (api && api->header.version.major > 1) {
    api = (const DLPackExchangeAPI*)api->header.prev_api;
  }
  if (!api || api->header.version.major != 1) return 0;
  entry->api = api;
  entry->take = rt_take_exchange;
  if (type == torch.tensor && torch.has_bits) rt_torch_view_find(api);
  return 1;
}
