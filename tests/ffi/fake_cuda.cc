// fake_cuda.cc: a CUDA driver that runs nothing: it notes every call, fails on demand, and has
// ordinary memory for a GPU's. Copies by `kdsl_copy` are made; other launches go to the test.
#include <kdsl/cuda/copy.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

typedef unsigned long long Address;
typedef int (*Launch)(const char* symbol, const unsigned* sizes, void* stream, void* args);

struct Function {
  char name[200];
};

char calls[1 << 16];
char failing[64];
int failure;
int live_memory, live_host, live_contexts, live_code;
int contexts[2];
__thread void* current;
Launch run;

int arch(int device) { return device == 0 ? 80 : 90; }

/// Note a call; the result that the test wants of it.
int note(const char* name, const char* format = "", ...) {
  char text[400];
  va_list rest;
  va_start(rest, format);
  vsnprintf(text, sizeof(text), format, rest);
  va_end(rest);
  const size_t size = strlen(calls);
  snprintf(calls + size, sizeof(calls) - size, "%s%s%s\n", name, *text ? " " : "", text);
  return strcmp(name, failing) == 0 ? failure : 0;
}

int get_memory(const char* name, Address* out, size_t bytes) {
  if (int result = note(name, "%zu", bytes)) return result;
  *out = reinterpret_cast<Address>(aligned_alloc(256, (bytes + 255) / 256 * 256));
  memset(reinterpret_cast<void*>(*out), 0xff, bytes);
  ++live_memory;
  return 0;
}

int free_memory(const char* name, Address address) {
  if (int result = note(name)) return result;
  free(reinterpret_cast<void*>(address));
  --live_memory;
  return 0;
}

const char* kind(const void* image) {
  return *static_cast<const char*>(image) == 0x7f ? "cubin" : "ptx";
}

void copy(const kdsl::CopyArgs& a) {
  for (kdsl::i64 at = 0; at < a.count; ++at) {
    kdsl::i64 rest = at, to = 0, from = 0;
    for (int i = a.ndim - 1; i >= 0; --i) {
      to += rest % a.sizes[i] * a.to_strides[i];
      from += rest % a.sizes[i] * a.from_strides[i];
      rest /= a.sizes[i];
    }
    memcpy(static_cast<char*>(a.to) + to * a.element_bytes,
           static_cast<const char*>(a.from) + from * a.element_bytes, a.element_bytes);
  }
}

}  // namespace

FAKE void fake_reset() {
  calls[0] = failing[0] = 0;
  run = nullptr;
}
FAKE void fake_fail(const char* name, int code) {
  snprintf(failing, sizeof(failing), "%s", name);
  failure = code;
}
FAKE void fake_launch(Launch launch) { run = launch; }
FAKE const char* fake_calls() { return calls; }
/// Blocks of memory, pinned blocks, references to contexts, loaded code.
FAKE int fake_live(int what) {
  const int live[] = {live_memory, live_host, live_contexts, live_code};
  return live[what];
}
FAKE void fake_use(int device) { current = device < 0 ? nullptr : &contexts[device]; }
FAKE int fake_current() {
  return current ? static_cast<int>(static_cast<int*>(current) - contexts) : -1;
}

FAKE int cuInit(unsigned) { return note("cuInit"); }
FAKE int cuDriverGetVersion(int* version) {
  *version = 13000;
  return note("cuDriverGetVersion");
}
FAKE int cuGetErrorName(int result, const char** text) {
  *text = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : result == 999 ? "CUDA_ERROR_UNKNOWN" : nullptr;
  return *text ? 0 : 1;
}
FAKE int cuGetErrorString(int result, const char** text) {
  *text = result == 2 ? "out of memory" : result == 999 ? "unknown error" : nullptr;
  return *text ? 0 : 1;
}
FAKE int cuDeviceGetCount(int* count) {
  *count = 2;
  return note("cuDeviceGetCount");
}
FAKE int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  if (int result = note("cuDeviceGet", "%d", ordinal)) return result;
  return ordinal < 2 ? 0 : 101;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75   ? arch(device) / 10
           : attribute == 76 ? arch(device) % 10
           : attribute == 97 ? 166912
                             : 1;
  return note("cuDeviceGetAttribute", "%d", attribute);
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (int result = note("cuDevicePrimaryCtxRetain", "%d", device)) return result;
  *context = &contexts[device];
  ++live_contexts;
  return 0;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int device) {
  --live_contexts;
  return note("cuDevicePrimaryCtxRelease", "%d", device);
}
FAKE int cuCtxGetCurrent(void** context) {
  *context = current;
  return note("cuCtxGetCurrent");
}
FAKE int cuCtxSetCurrent(void* context) {
  const auto index = context ? static_cast<int*>(context) - contexts : -1;
  if (int result = note("cuCtxSetCurrent", "%d", static_cast<int>(index))) return result;
  current = context;
  return 0;
}
FAKE int cuCtxGetDevice(int* device) {
  *device = fake_current();
  return note("cuCtxGetDevice");
}
FAKE int cuCtxSynchronize() { return note("cuCtxSynchronize"); }
FAKE int cuStreamSynchronize(void* stream) { return note("cuStreamSynchronize", "%p", stream); }
FAKE int cuModuleLoadData(void** module, const void* image) {
  if (int result = note("cuModuleLoadData", "%s", kind(image))) return result;
  *module = strdup("module");
  ++live_code;
  return 0;
}
FAKE int cuModuleUnload(void* module) {
  free(module);
  --live_code;
  return note("cuModuleUnload");
}
FAKE int cuModuleGetFunction(void** function, void*, const char* name) {
  if (int result = note("cuModuleGetFunction", "%s", name)) return result;
  auto* made = static_cast<Function*>(malloc(sizeof(Function)));
  snprintf(made->name, sizeof(made->name), "%s", name);
  *function = made;
  return 0;
}
FAKE int cuFuncSetAttribute(void*, int attribute, int value) {
  return note("cuFuncSetAttribute", "%d %d", attribute, value);
}
FAKE int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, void* stream,
                        void** args, void**) {
  const char* name = static_cast<Function*>(function)->name;
  const unsigned sizes[] = {x, y, z, block_x, block_y, block_z, shared};
  const int result = note("cuLaunchKernel", "%s (%u, %u, %u) x (%u, %u, %u), %u, %p", name, x, y, z,
                          block_x, block_y, block_z, shared, stream);
  if (result) return result;
  if (strcmp(name, "kdsl_copy") == 0) {
    copy(*static_cast<const kdsl::CopyArgs*>(args[0]));
    return 0;
  }
  return run ? run(name, sizes, stream, args[0]) : 0;
}
FAKE int cuMemAlloc_v2(Address* out, size_t bytes) { return get_memory("cuMemAlloc", out, bytes); }
FAKE int cuMemFree_v2(Address address) { return free_memory("cuMemFree", address); }
FAKE int cuMemHostAlloc(void** block, size_t bytes, unsigned flags) {
  if (int result = note("cuMemHostAlloc", "%zu %u", bytes, flags)) return result;
  *block = calloc(1, bytes);
  ++live_host;
  return 0;
}
FAKE int cuMemFreeHost(void* block) {
  free(block);
  --live_host;
  return note("cuMemFreeHost");
}
FAKE int cuMemHostGetDevicePointer_v2(Address* address, void* block, unsigned) {
  *address = reinterpret_cast<Address>(block);
  return note("cuMemHostGetDevicePointer");
}

#ifndef FAKE_OLD
FAKE int cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*, void**,
                           unsigned) {
  if (int result = note("cuLibraryLoadData", "%s", kind(image))) return result;
  *library = strdup("library");
  ++live_code;
  return 0;
}
FAKE int cuLibraryUnload(void* library) {
  free(library);
  --live_code;
  return note("cuLibraryUnload");
}
FAKE int cuLibraryGetKernel(void** kernel, void*, const char* name) {
  if (int result = note("cuLibraryGetKernel", "%s", name)) return result;
  auto* made = static_cast<Function*>(malloc(sizeof(Function)));
  snprintf(made->name, sizeof(made->name), "%s", name);
  *kernel = made;
  return 0;
}
FAKE int cuKernelSetAttribute(int attribute, int value, void*, int device) {
  return note("cuKernelSetAttribute", "%d %d %d", attribute, value, device);
}
FAKE int cuMemAllocAsync(Address* out, size_t bytes, void*) {
  return get_memory("cuMemAllocAsync", out, bytes);
}
FAKE int cuMemFreeAsync(Address address, void*) { return free_memory("cuMemFreeAsync", address); }
#endif

#ifdef FAKE_SIMULATOR
FAKE int kdsl_sim_version() { return 1; }
#endif
