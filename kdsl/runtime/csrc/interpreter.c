// interpreter.c: the way into Python from native code, on threads of any kind and at any time.
#include "core.h"

// Public since 3.13; before that under the other name.
int __attribute__((weak)) Py_IsFinalizing(void);
int __attribute__((weak)) _Py_IsFinalizing(void);

static int is_finalizing(void) {
  if (Py_IsFinalizing) return Py_IsFinalizing();
  return _Py_IsFinalizing ? _Py_IsFinalizing() : 0;
}

int rt_has_gil(void) {
  PyThreadState* state = rt_running_state();
  return state && state == PyGILState_GetThisThreadState();
}

int rt_python_enter(PyGILState_STATE* gil) {
  if (RT_UNLIKELY(!Py_IsInitialized())) return 0;
  // A thread that asks for the GIL now would never return.
  if (RT_UNLIKELY(is_finalizing()) && !rt_has_gil()) return 0;
  *gil = PyGILState_Ensure();
  return 1;
}

int rt_check_signals(void) {
  PyGILState_STATE gil;
  if (!rt_python_enter(&gil)) return 0;
  int failed = PyErr_CheckSignals();
  PyGILState_Release(gil);
  return failed ? -1 : 0;
}
