// env.c: the stream and the allocator that a thread works with, and Python's signals.
#include <stdlib.h>
#include <string.h>

#include "compat.h"

// ---- streams -----------------------------------------------------------------------------------

typedef struct {
  int32_t type, id;
  void* stream;
} Stream;

#define STREAMS 32  // devices that one thread has streams of at a time
static __thread Stream streams[STREAMS];
static __thread int stream_count;

static Stream* find_stream(int32_t type, int32_t id) {
  for (int i = 0; i < stream_count; ++i) {
    if (streams[i].type == type && streams[i].id == id) return &streams[i];
  }
  return NULL;
}

int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, void* stream, void** original) {
  const Official* other = official();
  if (other) return other->set_stream(device_type, device_id, stream, original);
  Stream* known = find_stream(device_type, device_id);
  if (original) *original = known ? known->stream : NULL;
  if (!known && stream) {
    if (stream_count == STREAMS) return fail("RuntimeError", "streams of too many devices");
    known = &streams[stream_count++];
    *known = (Stream){device_type, device_id, NULL};
  }
  if (!known) return 0;
  known->stream = stream;
  if (!stream) *known = streams[--stream_count];
  return 0;
}

void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  const Official* other = official();
  if (other) return other->get_stream(device_type, device_id);
  const Stream* known = find_stream(device_type, device_id);
  return known ? known->stream : NULL;
}

// ---- allocators --------------------------------------------------------------------------------

static __thread DLPackManagedTensorAllocator thread_allocator;
static DLPackManagedTensorAllocator global_allocator;

int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator allocator,
                                             int write_to_global_context,
                                             DLPackManagedTensorAllocator* original) {
  const Official* other = official();
  if (other) return other->set_allocator(allocator, write_to_global_context, original);
  if (original) *original = thread_allocator;
  thread_allocator = allocator;
  if (write_to_global_context) {
    __atomic_store_n(&global_allocator, allocator, __ATOMIC_RELEASE);
  }
  return 0;
}

DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator(void) {
  const Official* other = official();
  if (other) return other->get_allocator();
  if (thread_allocator) return thread_allocator;
  return __atomic_load_n(&global_allocator, __ATOMIC_ACQUIRE);
}

static void note_error(void* seen, const char* kind, const char* message) {
  *(int*)seen = 1;
  TVMFFIErrorSetRaisedFromCStr(kind, message);
}

int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out) {
  DLPackManagedTensorAllocator allocate = TVMFFIEnvGetDLPackManagedTensorAllocator();
  if (!allocate) {  // no framework called: memory of our own
    *out = new_tensor(prototype);
    return *out ? 0 : -1;
  }
  DLManagedTensorVersioned* made = NULL;
  int seen = 0;
  if (allocate(prototype, &made, &seen, note_error) || !made) {
    return seen ? -1 : fail("RuntimeError", "the framework's allocator failed");
  }
  if (!TVMFFITensorFromDLPackVersioned(made, 0, 0, out)) return 0;
  if (made->deleter) made->deleter(made);
  return -1;
}

// ---- Python
// --------------------------------------------------------------------------------------

static int (*check_signals)(void);
static int (*ensure_gil)(void);
static void (*release_gil)(int);

int TVMFFIEnvRegisterCAPI(const char* name, void* symbol) {
  if (!strcmp(name, "PyErr_CheckSignals")) {
    memcpy(&check_signals, &symbol, sizeof symbol);
  } else if (!strcmp(name, "PyGILState_Ensure")) {
    memcpy(&ensure_gil, &symbol, sizeof symbol);
  } else if (!strcmp(name, "PyGILState_Release")) {
    memcpy(&release_gil, &symbol, sizeof symbol);
  } else {
    return fail("ValueError", "unknown function of an environment: %s", name);
  }
  return 0;
}

int TVMFFIEnvCheckSignals(void) {
  const Official* other = official();
  if (other) return other->check_signals();
  if (!check_signals) return 0;
  int gil = ensure_gil ? ensure_gil() : 0;
  int failed = check_signals();
  if (release_gil) release_gil(gil);
  return failed ? -1 : 0;  // Python has the exception; the slot stays empty
}
