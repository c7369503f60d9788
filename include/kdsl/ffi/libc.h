// kdsl/ffi/libc.h: the few functions of libc that a module calls, pinned to old symbol versions.
//
// Declared under names of our own, so that generated code includes no system header and clashes
// with none, and bound to the versions that every glibc since 2.17 has: a module built on a new
// system loads on an old one. glibc before 2.34 keeps the dl functions in libdl, which a process
// that loads modules has.
#pragma once

#include <features.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define KDSL_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define KDSL_OLDEST_GLIBC "GLIBC_2.17"
#endif

#ifndef KDSL_COLD
#define KDSL_COLD __attribute__((cold, noinline))
#endif
// Shared by all functions of a module: compiled once, and a call costs nothing next to its work.
#define KDSL_NOINLINE __attribute__((noinline))
// A part of every call, also where the compiler is asked to be quick.
#define KDSL_INLINE __attribute__((always_inline)) inline

#ifdef KDSL_OLDEST_GLIBC
// These moved from libdl into libc with glibc 2.34 and got a new version there.
#define KDSL_PINNED(name)
__asm__(".symver kdsl_dlsym, dlsym@" KDSL_OLDEST_GLIBC);
__asm__(".symver kdsl_dlopen, dlopen@" KDSL_OLDEST_GLIBC);
#else
#define KDSL_PINNED(name) __asm__(name)
#endif

extern "C" {
void* kdsl_dlsym(void* handle, const char* name) KDSL_PINNED("dlsym");
void* kdsl_dlopen(const char* path, int flags) KDSL_PINNED("dlopen");

void* kdsl_malloc(size_t size) __asm__("malloc");
void* kdsl_realloc(void* block, size_t size) __asm__("realloc");
void kdsl_free(void* block) __asm__("free");
void* kdsl_memcpy(void* to, const void* from, size_t size) __asm__("memcpy");
char* kdsl_getenv(const char* name) __asm__("getenv");
int kdsl_snprintf(char* text, size_t size, const char* format, ...) __asm__("snprintf");
long kdsl_write(int file, const void* data, size_t size) __asm__("write");
double kdsl_strtod(const char* text, char** end) __asm__("strtod");
int kdsl_clock_gettime(int clock, long* seconds_and_nanoseconds) __asm__("clock_gettime");
int kdsl_getpid() __asm__("getpid");
int kdsl_sched_getaffinity(int pid, size_t size, void* mask) __asm__("sched_getaffinity");
long kdsl_syscall(long number, ...) __asm__("syscall");
}

#undef KDSL_PINNED
#undef KDSL_OLDEST_GLIBC

// Functions of the module itself, also where it is compiled without -fvisibility=hidden.
#pragma GCC visibility push(hidden)
namespace kdsl {

/// A function of another library in this process, or null. `handle` null: every global one.
template <class Function>
Function* find_symbol(const char* name, void* handle = nullptr) {
  return reinterpret_cast<Function*>(kdsl_dlsym(handle, name));
}

/// Handle of a library that is already loaded, also where its symbols are private; else null.
KDSL_INLINE void* loaded_library(const char* soname) {
  constexpr int kLazy = 1, kNoLoad = 4;
  return kdsl_dlopen(soname, kLazy | kNoLoad);
}

/// A function of libtvm_ffi, if that library is in the process, private copies included.
KDSL_COLD inline void* address_in_tvm_ffi(const char* name) {
  if (void* found = kdsl_dlsym(nullptr, name)) return found;
  void* library = loaded_library("libtvm_ffi.so");
  return library ? kdsl_dlsym(library, name) : nullptr;
}
template <class Function>
KDSL_INLINE Function* find_in_tvm_ffi(const char* name) {
  return reinterpret_cast<Function*>(address_in_tvm_ffi(name));
}

/// What tells threads apart: the address of the thread's control block.
///
/// State of a thread is found by it in a list (threads.h), not by `__thread`: that would add the
/// dynamic loader to the libraries a module needs, or take room in the small static TLS block.
KDSL_INLINE void* this_thread() {
#if defined(__x86_64__)
  void* self;
  __asm__("mov %%fs:0, %0" : "=r"(self));
  return self;
#else
  return __builtin_thread_pointer();
#endif
}

}  // namespace kdsl
#pragma GCC visibility pop
