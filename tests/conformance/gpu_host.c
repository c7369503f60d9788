// gpu_host.c: a C program that runs a kernel on a GPU, without kdsl and without CUDA's headers.
#include <dlfcn.h>
#include <kdsl/ffi/c_abi.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*Packed)(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);

static void* find(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "no %s\n", name);
    exit(1);
  }
  return found;
}

static void check(int result, const char* what) {
  if (result) {
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
  }
}

int main(int count, char** words) {
  if (count != 3) return 2;
  void* module = dlopen(words[1], RTLD_NOW);
  void* driver = dlopen(words[2], RTLD_NOW);
  if (!module || !driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  Packed softmax = find(module, "__tvm_ffi_softmax");
  Packed synchronize = find(module, "__tvm_ffi___kdsl_synchronize");
  const char* (*last_error)(void) = find(module, "__kdsl_last_error");
  int (*init)(unsigned) = find(driver, "cuInit");
  int (*retain)(void**, int) = find(driver, "cuDevicePrimaryCtxRetain");
  int (*use)(void*) = find(driver, "cuCtxSetCurrent");
  int (*alloc)(unsigned long long*, size_t) = find(driver, "cuMemAlloc_v2");
  int (*upload)(unsigned long long, const void*, size_t) = find(driver, "cuMemcpyHtoD_v2");
  int (*download)(void*, unsigned long long, size_t) = find(driver, "cuMemcpyDtoH_v2");

  void* context;
  unsigned long long x, o;
  float rows[3][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {5, 5, 5, 5}};
  check(init(0), "cuInit");
  check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(use(context), "cuCtxSetCurrent");
  check(alloc(&x, sizeof(rows)), "cuMemAlloc");
  check(alloc(&o, sizeof(rows)), "cuMemAlloc");
  check(upload(x, rows, sizeof(rows)), "cuMemcpyHtoD");

  int64_t shape[] = {3, 4};
  DLDevice gpu = {kDLCUDA, 0}, cpu = {kDLCPU, 0};
  DLDataType f32 = {kDLFloat, 32, 1};
  DLTensor tensors[] = {{(void*)x, gpu, 2, f32, shape, NULL, 0},
                        {(void*)o, gpu, 2, f32, shape, NULL, 0},
                        {rows, cpu, 2, f32, shape, NULL, 0}};
  TVMFFIAny args[2] = {{.type_index = kTVMFFIDLTensorPtr, .v_ptr = &tensors[0]},
                       {.type_index = kTVMFFIDLTensorPtr, .v_ptr = &tensors[1]}};
  TVMFFIAny result = {.type_index = kTVMFFINone};
  check(softmax(NULL, args, 2, &result), last_error());
  check(synchronize(NULL, NULL, 0, &result), last_error());
  check(download(rows, o, sizeof(rows)), "cuMemcpyDtoH");
  printf("row sums:");
  for (int i = 0; i < 3; ++i) printf(" %f", rows[i][0] + rows[i][1] + rows[i][2] + rows[i][3]);

  check(softmax(NULL, args, 1, &result), last_error());
  const DLTensor* made = (const DLTensor*)((TVMFFIObject*)result.v_obj + 1);
  printf("\nmade on device %d:%d\n", made->device.device_type, made->device.device_id);

  args[1].v_ptr = &tensors[2];
  if (softmax(NULL, args, 2, &result) == 0) return 1;
  printf("%s\n", last_error());
  return 0;
}
