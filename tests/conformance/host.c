// A host without any runtime, then one with a table of its own;
// tests/conformance/test_plain_host.py.
#include <dlfcn.h>
#include <kdsl/ffi/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int raised, allocated, ran;

static void count_raise(const char* kind, const char* message) {
  ++raised;
  printf("raise %s: %.20s...\n", kind, message);
}

static int no_memory(const DLTensor* prototype, void** out) {
  (void)prototype, (void)out;
  ++allocated;
  count_raise("MemoryError", "the host has no memory");
  return -1;
}

static void run_backwards(int64_t tasks, void (*body)(void*, int64_t, int64_t), void* ctx) {
  ++ran;
  for (int64_t i = tasks - 1; i >= 0; --i) body(ctx, i, i + 1);
}

// Three rows, long enough to be worth several threads.
enum { COUNT = 3 * 16384 };
static float x[COUNT], o[COUNT];
static int64_t shape[2] = {3, COUNT / 3};
static DLTensor X = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
static DLTensor O = {o, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};

static TVMFFIAny tensor(DLTensor* t) {
  return (TVMFFIAny){.type_index = kTVMFFIDLTensorPtr, .v_ptr = t};
}

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) return puts(dlerror()), 1;
  TVMFFISafeCallType axpy = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_axpy");
  TVMFFISafeCallType doc = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi__doc_axpy");
  const char* (*last_error)(void) = (const char* (*)(void))dlsym(library, "__kdsl_last_error");
  printf("functions %s", (const char*)dlsym(library, "__kdsl_functions"));
  printf("error '%s'\n", last_error());

  for (int i = 0; i < COUNT; ++i) x[i] = i;
  TVMFFIAny args[4] = {{.type_index = kTVMFFIFloat, .v_float64 = 2}, tensor(&X), tensor(&X)};
  args[3] = tensor(&O);
  TVMFFIAny result = {0};
  int failed = axpy(NULL, args, 4, &result);
  printf("given %d, type %d, o %g .. %g\n", failed, result.type_index, o[0], o[COUNT - 1]);

  failed = axpy(NULL, args, 3, &result);
  KdslTensorObject* made = (KdslTensorObject*)result.v_obj;
  float* data = (float*)made->tensor.data;
  printf("omitted %d, type %d, o %g .. %g, aligned %d, stride %d\n", failed, result.type_index,
         data[0], data[COUNT - 1], (uintptr_t)data % 64 == 0, (int)made->tensor.strides[0]);
  made->head.deleter(made, kTVMFFIObjectDeleterFlagBitMaskBoth);

  failed = axpy(NULL, args, 2, &result);
  printf("wrong %d, error '%s'\n", failed, last_error());

  TVMFFIAny text = {0};
  doc(NULL, NULL, 0, &text);
  printf("doc '%s', type %d\n", ((KdslStringObject*)text.v_obj)->bytes.data, text.type_index);

  TVMFFISafeCallType take = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_take");
  int64_t ids[2] = {0, -3}, sizes[2] = {2, 4};
  int runs = 0;
  DLTensor Ids = {ids, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, sizes, NULL, 0};
  DLTensor Rows = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes, NULL, 0};
  DLTensor Runs = {&runs, {kDLCPU, 0}, 0, {kDLInt, 32, 1}, NULL, NULL, 0};
  TVMFFIAny taken[3] = {tensor(&Ids), tensor(&Rows), tensor(&Runs)};
  failed = take(NULL, taken, 3, &result);
  printf("outside %d, runs %d, error '%s'\n", failed, runs, last_error());

  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(axpy(NULL, args, 4, &result));
  int status = -1;
  waitpid(child, &status, 0);
  printf("child %d\n", status);

  KdslRuntime table = {KDSL_RUNTIME_VERSION, sizeof(table), count_raise, NULL, no_memory,
                       run_backwards,        NULL};
  *(const KdslRuntime**)dlsym(library, "__kdsl_rt") = &table;
  memset(o, 0, sizeof(o));
  failed = axpy(NULL, args, 4, &result);
  printf("table %d, o %g .. %g, ran %d\n", failed, o[0], o[COUNT - 1], ran);
  failed = axpy(NULL, args, 3, &result);
  printf("no memory %d\n", failed);
  failed = axpy(NULL, args, 2, &result);
  printf("wrong %d, raised %d, allocated %d\n", failed, raised, allocated);
  return 0;
}
