// linked.c: registers its function as a statically linked module does, and exports nothing.
#include <kdsl/ffi/c_abi.h>

int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);

static int add(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret) {
  (void)self, (void)count;
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = args[0].v_int64 + args[1].v_int64};
  return 0;
}

__attribute__((constructor)) static void init(void) {
  TVMFFIEnvModRegisterSystemLibSymbol("__tvm_ffi_kdsl_test_add", (void*)add);
}
