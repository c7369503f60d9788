// functions.c: packed functions that call, keep and return other functions.
//
// What they need of a runtime they ask of the loader's table, else of libtvm_ffi.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <kdsl/ffi/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret); \
  int __tvm_ffi_##name(                                                                          \
      __attribute__((unused)) void* self, __attribute__((unused)) const TVMFFIAny* args,         \
      __attribute__((unused)) int32_t count, __attribute__((unused)) TVMFFIAny* ret)

EXPORT const KdslRuntime* __kdsl_rt;

static void* runtime(const char* name) {
  void* found = __kdsl_rt && __kdsl_rt->symbol ? __kdsl_rt->symbol(name) : NULL;
  return found ? found : dlsym(RTLD_DEFAULT, name);
}

static int raise(const char* kind, const char* message) {
  void (*set)(const char*, const char*);
  *(void**)&set = runtime("TVMFFIErrorSetRaisedFromCStr");
  if (set) set(kind, message);
  return -1;
}

static TVMFFIObject* take_error(void) {
  void (*move)(TVMFFIObjectHandle*);
  TVMFFIObjectHandle error = NULL;
  *(void**)&move = runtime("TVMFFIErrorMoveFromRaised");
  if (move) move(&error);
  return error;
}

static int put_error(TVMFFIObject* error) {
  void (*set)(TVMFFIObjectHandle);
  *(void**)&set = runtime("TVMFFIErrorSetRaised");
  if (set && error) set(error);
  return -1;
}

static void retain(TVMFFIObject* object) {
  __atomic_fetch_add(&object->combined_ref_count, 1, __ATOMIC_RELAXED);
}

static void release(TVMFFIObject* object) {
  uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, 1, __ATOMIC_ACQ_REL);
  if (before == KDSL_REF_COUNT_ONE) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskBoth);
}

static int call(TVMFFIObject* function, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret) {
  return ((KdslFunctionObject*)function)->function.safe_call(function, args, count, ret);
}

static int no_function(int32_t count, const TVMFFIAny* args) {
  if (count > 0 && args[0].type_index == kTVMFFIFunction) return 0;
  return raise("TypeError", "expected a function first");
}

// apply(f, ...): what f(...) returns.
PACKED(apply) {
  if (no_function(count, args)) return -1;
  return call(args[0].v_obj, args + 1, count - 1, ret);
}

// repeat(n, f, ...): call f(...) n times.
PACKED(repeat) {
  if (no_function(count - 1, args + 1)) return -1;
  for (int64_t i = 0; i < args[0].v_int64; ++i) {
    TVMFFIAny result = {.type_index = kTVMFFINone};
    if (call(args[1].v_obj, args + 2, count - 2, &result)) return -1;
    if (result.type_index >= kTVMFFIStaticObjectBegin) release(result.v_obj);
  }
  return 0;
}

typedef struct {
  const TVMFFIAny* args;
  int32_t count;
  TVMFFIAny* ret;
  int rc;
  TVMFFIObject* error;
} Job;

static void* run_job(void* data) {
  Job* job = data;
  job->rc = call(job->args[0].v_obj, job->args + 1, job->count - 1, job->ret);
  if (job->rc) job->error = take_error();
  return NULL;
}

// elsewhere(f, ...): the same on a thread of our own; its error goes on in this one.
PACKED(elsewhere) {
  if (no_function(count, args)) return -1;
  Job job = {args, count, ret, 0, NULL};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_job, &job)) return raise("OSError", "no thread");
  pthread_join(thread, NULL);
  if (job.rc) {
    put_error(job.error);
    if (job.error) release(job.error);
  }
  return job.rc;
}

// many_threads(n, f, ...): call f(...) on n threads at once; how many calls failed.
PACKED(many_threads) {
  if (no_function(count - 1, args + 1)) return -1;
  int n = (int)args[0].v_int64;
  pthread_t* threads = calloc((size_t)n, sizeof *threads);
  Job* jobs = calloc((size_t)n, sizeof *jobs);
  TVMFFIAny* results = calloc((size_t)n, sizeof *results);
  int failures = 0, started = 0;
  for (; started < n; ++started) {
    jobs[started] = (Job){args + 1, count - 1, &results[started], 0, NULL};
    if (pthread_create(&threads[started], NULL, run_job, &jobs[started])) break;
  }
  for (int i = 0; i < started; ++i) {
    pthread_join(threads[i], NULL);
    failures += jobs[i].rc != 0;
    if (jobs[i].error) release(jobs[i].error);
    if (results[i].type_index >= kTVMFFIStaticObjectBegin) release(results[i].v_obj);
  }
  free(threads);
  free(jobs);
  free(results);
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = failures};
  return 0;
}

// caught(f, ...): kind of the error that f(...) raises, which goes no further.
PACKED(caught) {
  static __thread char text[256];
  if (no_function(count, args)) return -1;
  if (call(args[0].v_obj, args + 1, count - 1, ret) == 0)
    return raise("AssertionError", "no error");
  TVMFFIObject* error = take_error();
  if (!error) return raise("AssertionError", "no error object");
  const TVMFFIErrorCell* cell = &((KdslErrorObject*)error)->error;
  size_t size = cell->kind.size < 200 ? cell->kind.size : 200;
  memcpy(text, cell->kind.data, size);
  text[size] = '\0';
  release(error);
  if (size <= 7) {
    *ret = (TVMFFIAny){.type_index = kTVMFFISmallStr, .small_str_len = (uint32_t)size};
    memcpy(ret->v_bytes, text, size);
    return 0;
  }
  KdslStringObject* object = calloc(1, sizeof *object);
  object->head = (TVMFFIObject){KDSL_REF_COUNT_ONE + 1, kTVMFFIStr, 0, NULL};  // for good
  object->bytes = (TVMFFIByteArray){strdup(text), size};
  *ret = (TVMFFIAny){.type_index = kTVMFFIStr, .v_obj = &object->head};
  return 0;
}

// translated(f, ...): an error of our own in place of the one that f(...) raises.
PACKED(translated) {
  if (no_function(count, args)) return -1;
  if (call(args[0].v_obj, args + 1, count - 1, ret) == 0) return 0;
  TVMFFIObject* error = take_error();
  if (error) release(error);
  return raise("IndexError", "another error");
}

static TVMFFIObject* kept;

PACKED(keep) {
  if (no_function(count, args)) return -1;
  retain(args[0].v_obj);
  TVMFFIObject* before = __atomic_exchange_n(&kept, args[0].v_obj, __ATOMIC_ACQ_REL);
  if (before) release(before);
  return 0;
}

PACKED(kept) {
  if (!kept) return 0;
  retain(kept);
  *ret = (TVMFFIAny){.type_index = kTVMFFIFunction, .v_obj = kept};
  return 0;
}

static void* drop_it(void* object) {
  release(object);
  return NULL;
}

// Forget the kept function on a thread that Python has never seen.
PACKED(drop) {
  TVMFFIObject* before = __atomic_exchange_n(&kept, NULL, __ATOMIC_ACQ_REL);
  pthread_t thread;
  if (!before) return 0;
  if (pthread_create(&thread, NULL, drop_it, before)) return raise("OSError", "no thread");
  pthread_join(thread, NULL);
  return 0;
}

PACKED(echo) {
  if (count < 1) return 0;
  *ret = args[0];
  if (ret->type_index >= kTVMFFIStaticObjectBegin) retain(ret->v_obj);
  return 0;
}

// ---- a function that is made ------------------------------------------------------------------

typedef struct {
  KdslFunctionObject base;
  int64_t value;
} Adder;

static int64_t living;

static void delete_adder(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    __atomic_fetch_sub(&living, 1, __ATOMIC_RELAXED);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(self);
}

static int add(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret) {
  if (count != 1 || args[0].type_index != kTVMFFIInt) return raise("TypeError", "expected an int");
  int64_t sum = ((Adder*)self)->value + args[0].v_int64;
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = sum};
  return 0;
}

PACKED(adder) {
  Adder* made = calloc(1, sizeof *made);
  made->base.head = (TVMFFIObject){KDSL_REF_COUNT_ONE, kTVMFFIFunction, 0, delete_adder};
  made->base.function.safe_call = add;
  made->value = args[0].v_int64;
  __atomic_fetch_add(&living, 1, __ATOMIC_RELAXED);
  *ret = (TVMFFIAny){.type_index = kTVMFFIFunction, .v_obj = &made->base.head};
  return 0;
}

PACKED(living) {
  int64_t count_now = __atomic_load_n(&living, __ATOMIC_RELAXED);
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = count_now};
  return 0;
}

// ---- a view of memory that ends with the call
// ----------------------------------------------------

// lend(f): f(an array of 3 floats on the stack); their sum afterwards.
PACKED(lend) {
  if (no_function(count, args)) return -1;
  float data[3] = {1, 2, 3};
  int64_t shape = 3, stride = 1;
  DLTensor view = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shape, &stride, 0};
  TVMFFIAny arg = {.type_index = kTVMFFIDLTensorPtr, .v_ptr = &view};
  if (call(args[0].v_obj, &arg, 1, ret)) return -1;
  if (ret->type_index >= kTVMFFIStaticObjectBegin) release(ret->v_obj);
  *ret = (TVMFFIAny){.type_index = kTVMFFIFloat, .v_float64 = data[0] + data[1] + data[2]};
  return 0;
}

// by_name(name, ...): what the global function of that name returns.
PACKED(by_name) {
  int (*get)(const TVMFFIByteArray*, TVMFFIObjectHandle*);
  *(void**)&get = runtime("TVMFFIFunctionGetGlobal");
  TVMFFIByteArray name = {NULL, 0};
  if (args[0].type_index == kTVMFFISmallStr)
    name = (TVMFFIByteArray){args[0].v_bytes, args[0].small_str_len};
  else if (args[0].type_index == kTVMFFIRawStr)
    name = (TVMFFIByteArray){args[0].v_c_str, strlen(args[0].v_c_str)};
  else if (args[0].type_index == kTVMFFIStr)
    name = ((KdslStringObject*)args[0].v_obj)->bytes;
  TVMFFIObjectHandle function = NULL;
  if (!get || get(&name, &function)) return raise("RuntimeError", "no global functions");
  if (!function) return raise("ValueError", "no function of that name");
  int rc = call(function, args + 1, count - 1, ret);
  release(function);
  return rc;
}

// poll(n): ask for signals n times; how often it did.
PACKED(poll) {
  int (*check)(void);
  *(void**)&check = runtime("TVMFFIEnvCheckSignals");
  if (!check) return raise("RuntimeError", "no signals");
  int64_t i = 0;
  for (; i < args[0].v_int64; ++i) {
    for (volatile int spin = 0; spin < 10000; ++spin) continue;
    if (check()) return -1;
  }
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = i};
  return 0;
}
