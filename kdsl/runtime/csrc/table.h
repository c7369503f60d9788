// table.h: the table of a Dispatcher: places to look at, and functions by conditions on arguments.
#pragma once
#include "core.h"

typedef enum {
  IS_DTYPE,   ///< a tensor of this element type
  IS_SIZE,    ///< a tensor of this size along the axis
  IS_INT,     ///< this integer
  IS_BOOL,    ///< this bool
  IS_GIVEN,   ///< not left out
  IS_ABSENT,  ///< left out
  IS_OBJECT,  ///< this very object
  IS_DEVICE,  ///< a tensor on the CUDA device of this number; on none of them where it is -1
  KINDS
} Kind;

typedef struct {
  Kind kind;
  int or_absent;  ///< an argument that was left out does too: this is its default
  Py_ssize_t argument;
  int64_t axis;
  union {
    int64_t value;
    DLDataType dtype;
  };
  PyObject* object;
} Condition;

typedef struct {
  Function* function;
  Py_ssize_t count;
  Condition* conditions;
} Row;

typedef struct {
  PyObject* space;  ///< a dict or another mapping; a closure cell where there is no key
  PyObject* key;
  PyObject* value;
} Place;

struct RtTable {
  Py_ssize_t users;  ///< the dispatcher and the calls that run
  Py_ssize_t place_count, row_count;
  Place* places;
  Row* rows;
};

/// Count users of a table; the GIL makes it safe where there is one. The new number.
static inline Py_ssize_t rt_table_count(RtTable* table, Py_ssize_t step) {
#ifdef Py_GIL_DISABLED
  return __atomic_add_fetch(&table->users, step, __ATOMIC_ACQ_REL);
#else
  return table->users += step;
#endif
}
/// From tuples of (space, key or None, value) and of (function, conditions), a condition being
/// (kind, argument, or_absent, axis, value) with kinds by name, as "dtype" for IS_DTYPE, and a
/// dtype as (DLPack's code, bits); NULL with an exception.
RtTable* rt_table_new(PyObject* places, PyObject* rows);
void rt_table_release(RtTable* table);
int rt_table_visit(const RtTable* table, visitproc visit, void* arg);
/// Whether all places have the values that they had; never an exception.
int rt_table_is_valid(const RtTable* table);
