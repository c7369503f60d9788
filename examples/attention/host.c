// A C program that calls attention.so; it needs no library but libc, and no kdsl at run time.
//   python export.py . && gcc -I ../../include host.c -o host -ldl && ./host
#include <dlfcn.h>
#include <kdsl/ffi/c_abi.h>
#include <stdio.h>

enum { HEADS = 4, ROWS = 8, SIZE = 64 };
static float q[HEADS * ROWS * SIZE], k[HEADS * ROWS * SIZE], v[HEADS * ROWS * SIZE];

static TVMFFIAny pass(DLTensor* t) { return (TVMFFIAny){kTVMFFIDLTensorPtr, {0}, {.v_ptr = t}}; }

int main(void) {
  void* library = dlopen("./attention.so", RTLD_NOW);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  TVMFFISafeCallType attention = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_attention");
  const char* (*last_error)(void) = (const char* (*)(void))dlsym(library, "__kdsl_last_error");

  for (int i = 0; i < HEADS * ROWS * SIZE; ++i) {
    q[i] = (float)(i % 7) / 7, k[i] = (float)(i % 5) / 5, v[i] = (float)(i % 3);
  }
  int64_t shape[4] = {1, HEADS, ROWS, SIZE};
  DLTensor view = {q, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, shape, NULL, 0},
           views[3] = {view, view, view};
  views[1].data = k, views[2].data = v;
  TVMFFIAny args[4] = {
      pass(&views[0]), pass(&views[1]), pass(&views[2]), {kTVMFFIFloat, {0}, {.v_float64 = 0.125}}};
  TVMFFIAny result = {kTVMFFINone, {0}, {0}};
  if (attention(NULL, args, 4, &result)) return fprintf(stderr, "%s\n", last_error()), 1;

  KdslArrayObject* both = (KdslArrayObject*)result.v_obj;  // o and lse, made by the call
  KdslTensorObject* o = (KdslTensorObject*)((TVMFFIAny*)both->seq.data)[0].v_obj;
  printf("o[0, 0, 0, :3] = %.4f %.4f %.4f\n", ((float*)o->tensor.data)[0],
         ((float*)o->tensor.data)[1], ((float*)o->tensor.data)[2]);
  both->head.deleter(both, kTVMFFIObjectDeleterFlagBitMaskBoth);

  args[3].v_float64 = -1;  // what `kdsl.require(scale > 0)` forbids
  if (attention(NULL, args, 4, &result)) printf("%s\n", last_error());
  return 0;
}
