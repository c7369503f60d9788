// kdsl/native/base.h: the ground of the headers for hand-written kernels: macros, the module's
// slots.
//
// These headers offer the C++ names of TVM FFI (namespace tvm::ffi) over the same C ABI, without a
// library to link: what a runtime holds (errors, streams, allocators, global functions) is looked
// up when it is first needed. All of it has hidden visibility, so that modules never share code by
// accident. They throw; nothing else of kdsl does, and no exception leaves a packed function.
#pragma once

#include <kdsl/native/std.h>
// Not in the block below: what it declares is libc's.
#include <kdsl/ffi/libc.h>

#pragma GCC visibility push(hidden)
#include <kdsl/ffi/object.h>
#include <kdsl/ffi/runtime.h>
#pragma GCC visibility pop

#define TVM_FFI_VERSION_MAJOR 0
#define TVM_FFI_VERSION_MINOR 1
#define TVM_FFI_VERSION_PATCH 15

#define TVM_FFI_DLL __attribute__((visibility("default")))
#define TVM_FFI_DLL_EXPORT __attribute__((visibility("default")))
#define TVM_FFI_WEAK __attribute__((weak))
#define TVM_FFI_INLINE __attribute__((always_inline)) inline
#define TVM_FFI_NO_INLINE __attribute__((noinline))
#define TVM_FFI_COLD_CODE __attribute__((cold))
#define TVM_FFI_UNREACHABLE() __builtin_unreachable()
#define TVM_FFI_PREDICT_FALSE(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define TVM_FFI_PREDICT_TRUE(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define TVM_FFI_FUNC_SIG __PRETTY_FUNCTION__
#define TVM_FFI_STR_CONCAT_(a, b) a##b
#define TVM_FFI_STR_CONCAT(a, b) TVM_FFI_STR_CONCAT_(a, b)

/// Before a function that few kernels use: as a template it costs the others next to nothing.
#define KDSL_LAZY template <class = void>

/// Code that runs when the module is loaded: TVM_FFI_STATIC_INIT_BLOCK() { ... }
#define TVM_FFI_STATIC_INIT_BLOCK() KDSL_STATIC_INIT_(TVM_FFI_STR_CONCAT(kdsl_init_, __COUNTER__))
#define KDSL_STATIC_INIT_(name) __attribute__((constructor)) static void name()

/// Written by kdsl's loader before the module's first call; null under every other host. Each
/// source file of a module may hold this; the linker keeps one.
extern "C" {
__attribute__((weak, visibility("default"))) const KdslRuntime* __kdsl_rt = nullptr;
}

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

using TypeIndex = TVMFFITypeIndex;

/// Asks for an object that is filled in later.
struct UnsafeInit {};

namespace detail {

TVM_FFI_INLINE bool same_bytes(const char* a, const char* b, size_t size) {
  return size == 0 || __builtin_memcmp(a, b, size) == 0;
}

/// Memory, or std::bad_alloc.
KDSL_COLD inline void* allocate(size_t size) {
  void* block = kdsl_malloc(size);
  if (TVM_FFI_PREDICT_FALSE(!block)) throw std::bad_alloc();
  return block;
}

/// The text of a thread's last error. An entry is never freed: a thread that ends leaves it to the
/// next one at its address.
struct LastError {
  void* thread;
  LastError* next;
  char text[4096];
};
inline LastError* last_errors = nullptr;

/// This thread's; null when memory is short.
KDSL_COLD inline char* last_error() noexcept {
  void* self = kdsl::this_thread();
  LastError* first = __atomic_load_n(&last_errors, __ATOMIC_ACQUIRE);
  for (LastError* error = first; error; error = error->next) {
    if (error->thread == self) return error->text;
  }
  auto* made = static_cast<LastError*>(kdsl_malloc(sizeof(LastError)));
  if (!made) return nullptr;
  made->thread = self;
  made->next = first;
  made->text[0] = 0;
  while (!__atomic_compare_exchange_n(&last_errors, &made->next, made, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  return made->text;
}

TVM_FFI_INLINE void retain(TVMFFIObject* object) {
  __atomic_fetch_add(&object->combined_ref_count, 1, __ATOMIC_RELAXED);
}

/// kdsl::release, compiled once in a file; nothing where `object` is null.
KDSL_NOINLINE inline void drop(void* object) {
  if (object) kdsl::release(static_cast<TVMFFIObject*>(object));
}

/// A function of the loader's table; null where there is none.
KDSL_COLD inline void* in_table(const char* name) {
  const KdslRuntime* table = __kdsl_rt;
  if (!table || table->size <= offsetof(KdslRuntime, symbol) || !table->symbol) return nullptr;
  return table->symbol(name);
}
/// The same, or of libtvm_ffi; null where the process has neither.
KDSL_COLD inline void* in_either(const char* name) {
  void* found = in_table(name);
  return found ? found : kdsl::address_in_tvm_ffi(name);
}
template <class Function>
TVM_FFI_INLINE Function* in_runtime(const char* name) {
  return reinterpret_cast<Function*>(in_either(name));
}

}  // namespace detail
}  // namespace tvm::ffi
#pragma GCC visibility pop

/// "ValueError: text" of this thread's last failed call of the module; "" before any.
extern "C" __attribute__((weak, visibility("default"))) KDSL_COLD const char* __kdsl_last_error(
    void) {
  const char* text = tvm::ffi::detail::last_error();
  return text ? text : "";
}
