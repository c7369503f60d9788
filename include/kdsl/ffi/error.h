// kdsl/ffi/error.h: raise an error so that whoever called sees it, whichever runtime that is.
#pragma once

#include <kdsl/ffi/libc.h>
#include <kdsl/ffi/runtime.h>
#include <kdsl/ffi/threads.h>

#define KDSL_EXPORT extern "C" __attribute__((visibility("default")))

/// Written by kdsl's loader before the module's first call; null under every other host.
KDSL_EXPORT const KdslRuntime* __kdsl_rt;

namespace kdsl {

/// Keep "ValueError: text" as this thread's last error.
KDSL_COLD inline void keep_error(const char* kind, const char* message) {
  constexpr int kCapacity = 4096;
  ThreadState* state = thread_state();
  if (!state) return;
  if (!state->error) state->error = static_cast<char*>(kdsl_malloc(kCapacity));
  if (state->error) kdsl_snprintf(state->error, kCapacity, "%s: %s", kind, message);
}

/// Raise in every runtime that is there: the caller's is one of them. Kinds are names of Python's
/// exceptions. Returns -1, what a packed function then returns.
KDSL_COLD inline int raise(const char* kind, const char* message) {
  using Raise = void(const char*, const char*);
  keep_error(kind, message);
  Raise* ours = __kdsl_rt ? __kdsl_rt->raise : nullptr;
  if (ours) ours(kind, message);
  if (ours && __kdsl_rt->version >= 2) return -1;
  auto* theirs = find_in_tvm_ffi<Raise>("TVMFFIErrorSetRaisedFromCStr");
  if (theirs && theirs != ours) theirs(kind, message);
  return -1;
}

/// "ValueError: text" of this thread's last failed call of the module; "" before any.
KDSL_COLD inline const char* last_error() {
  ThreadState* state = thread_state();
  return state && state->error ? state->error : "";
}

}  // namespace kdsl
