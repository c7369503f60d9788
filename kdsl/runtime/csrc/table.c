// table.c: which function runs for which arguments, as long as what they were made from stays.
#include "table.h"

#include <string.h>

static PyObject* cell_contents;  // the attribute's name

// ---- reading -----------------------------------------------------------------------------------

// 1 as it was, 0 not, or in doubt.
static inline int is_unchanged(const Place* place) {
  PyObject* value;
  if (RT_LIKELY(place->key && PyDict_CheckExact(place->space))) {
    value = PyDict_GetItemWithError(place->space, place->key);
    if (RT_UNLIKELY(!value)) PyErr_Clear();
    return value == place->value;
  }
  value = place->key ? PyObject_GetItem(place->space, place->key)
                     : PyObject_GetAttr(place->space, cell_contents);
  if (RT_UNLIKELY(!value)) PyErr_Clear();
  int same = value == place->value;
  Py_XDECREF(value);
  return same;
}

int rt_table_is_valid(const RtTable* table) {
  Py_ssize_t p = 0;
  while (p < table->place_count && is_unchanged(&table->places[p])) ++p;
  return p == table->place_count;
}

static inline int holds(const Condition* condition, const Frame* frame) {
  Py_ssize_t i = condition->argument;
  int32_t type = i < frame->count ? frame->args[i].type_index : kTVMFFINone;
  if (type == kTVMFFINone) return condition->or_absent;
  const DLTensor* view = NULL;
  if (type == kTVMFFIDLTensorPtr || type == kTVMFFITensor) view = &frame->views[i];
  switch (condition->kind) {
    case IS_DTYPE:
      return view && memcmp(&view->dtype, &condition->dtype, sizeof view->dtype) == 0;
    case IS_SIZE:
      return view && condition->axis < view->ndim &&
             view->shape[condition->axis] == condition->value;
    case IS_INT:
      return type == kTVMFFIInt && frame->args[i].v_int64 == condition->value;
    case IS_BOOL:
      return type == kTVMFFIBool && frame->args[i].v_int64 == condition->value;
    case IS_GIVEN:
      return 1;
    case IS_ABSENT:
      return 0;
    case IS_OBJECT:
      return frame->objects[i] == condition->object;
    case IS_DEVICE:
      if (!view) return 0;
      if (RT_LIKELY(view->device.device_type != kDLCUDA)) return condition->value < 0;
      return view->device.device_id == condition->value;
    case KINDS:
      break;
  }
  return 0;
}

const Function* rt_table_find(const RtTable* table, const Frame* frame) {
  for (Py_ssize_t r = 0; r < table->row_count; ++r) {
    const Row* row = &table->rows[r];
    Py_ssize_t c = 0;
    while (c < row->count && holds(&row->conditions[c], frame)) ++c;
    if (c == row->count) return row->function;
  }
  return NULL;
}

// ---- the references that a table holds ---------------------------------------------------------

void rt_table_release(RtTable* table) {
  if (!table || rt_table_count(table, -1)) return;
  for (Py_ssize_t p = 0; p < table->place_count; ++p) {
    Py_XDECREF(table->places[p].space);
    Py_XDECREF(table->places[p].key);
    Py_XDECREF(table->places[p].value);
  }
  for (Py_ssize_t r = 0; r < table->row_count; ++r) {
    Row* row = &table->rows[r];
    for (Py_ssize_t c = 0; c < row->count; ++c) Py_XDECREF(row->conditions[c].object);
    PyMem_Free(row->conditions);
    Py_XDECREF((PyObject*)row->function);
  }
  PyMem_Free(table->places);
  PyMem_Free(table->rows);
  PyMem_Free(table);
}

int rt_table_visit(const RtTable* table, visitproc visit, void* arg) {
  for (Py_ssize_t p = 0; p < table->place_count; ++p) {
    Py_VISIT(table->places[p].space);
    Py_VISIT(table->places[p].key);
    Py_VISIT(table->places[p].value);
  }
  for (Py_ssize_t r = 0; r < table->row_count; ++r) {
    const Row* row = &table->rows[r];
    for (Py_ssize_t c = 0; c < row->count; ++c) Py_VISIT(row->conditions[c].object);
    Py_VISIT((PyObject*)row->function);
  }
  return 0;
}

// ---- writing the table -----------------------------------------------------------------------

static PyObject* own(PyObject* object) {
  Py_INCREF(object);
  return object;
}

static Kind kind_of(const char* name) {
  static const char* const names[KINDS] = {"dtype", "size",   "int",    "bool",
                                           "given", "absent", "object", "device"};
  int kind = 0;
  while (kind < KINDS && strcmp(name, names[kind])) ++kind;
  return (Kind)kind;
}

static int read_condition(PyObject* tuple, Condition* out) {
  const char* name;
  int code, bits;
  PyObject* value;
  Py_ssize_t argument;
  long long axis;
  if (!PyArg_ParseTuple(tuple, "snpLO", &name, &argument, &out->or_absent, &axis, &value)) {
    return -1;
  }
  Kind kind = kind_of(name);
  if (kind == KINDS || argument < 0 || axis < 0) {
    PyErr_SetString(PyExc_ValueError, "no such condition");
    return -1;
  }
  out->kind = kind;
  out->argument = argument;
  out->axis = axis;
  if (kind == IS_DTYPE) {
    if (!PyArg_ParseTuple(value, "ii", &code, &bits)) return -1;
    out->dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
  } else if (kind == IS_OBJECT) {
    out->object = own(value);
  } else {
    out->value = PyLong_AsLongLong(value);
    if (out->value == -1 && PyErr_Occurred()) return -1;
  }
  return 0;
}

static int read_row(PyObject* tuple, Row* out) {
  PyObject *function, *conditions;
  if (!PyArg_ParseTuple(tuple, "O!O!", rt_function_type, &function, &PyTuple_Type, &conditions)) {
    return -1;
  }
  out->function = (Function*)own(function);
  if (rt_function_describe(out->function)) return -1;
  Py_ssize_t count = PyTuple_Size(conditions);
  out->conditions = PyMem_Calloc((size_t)count + 1, sizeof *out->conditions);
  if (!out->conditions) {
    PyErr_NoMemory();
    return -1;
  }
  out->count = count;
  for (Py_ssize_t c = 0; c < count; ++c) {
    if (read_condition(PyTuple_GetItem(conditions, c), &out->conditions[c])) return -1;
  }
  return 0;
}

static int read_place(PyObject* tuple, Place* out) {
  PyObject *space, *key, *value;
  if (!PyArg_ParseTuple(tuple, "OOO", &space, &key, &value)) return -1;
  *out = (Place){own(space), key == Py_None ? NULL : own(key), own(value)};
  return 0;
}

RtTable* rt_table_new(PyObject* places, PyObject* rows) {
  RtTable* table = PyMem_Calloc(1, sizeof *table);
  if (!table ||
      (!cell_contents && !(cell_contents = PyUnicode_InternFromString("cell_contents")))) {
    PyMem_Free(table);
    return (RtTable*)PyErr_NoMemory();
  }
  table->users = 1;
  Py_ssize_t place_count = PyTuple_Size(places), row_count = PyTuple_Size(rows);
  table->places = PyMem_Calloc((size_t)place_count + 1, sizeof *table->places);
  table->rows = PyMem_Calloc((size_t)row_count + 1, sizeof *table->rows);
  int good = table->places && table->rows;
  if (!good) PyErr_NoMemory();
  for (Py_ssize_t i = 0; good && i < place_count; ++i) {
    good = !read_place(PyTuple_GetItem(places, i), &table->places[table->place_count++]);
  }
  for (Py_ssize_t i = 0; good && i < row_count; ++i) {
    good = !read_row(PyTuple_GetItem(rows, i), &table->rows[table->row_count++]);
  }
  if (good) return table;
  rt_table_release(table);
  return NULL;
}
