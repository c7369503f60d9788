// memory.c: the lock of the tables, texts that stay, names to numbers, objects made once.
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>

#include "compat.h"

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
// An initialiser may make other objects once.
static pthread_mutex_t once = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void lock_tables(void) { pthread_mutex_lock(&tables); }
void unlock_tables(void) { pthread_mutex_unlock(&tables); }

static void fresh_lock(void) { once = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

// A child of fork has one thread: it must not wait for a holder that is not there. The lock of
// initialisers runs their code, so that fork cannot wait for it; the child begins with a new one.
__attribute__((constructor(101))) static void make_fork_safe(void) {
  pthread_atfork(lock_tables, unlock_tables, unlock_tables);
  pthread_atfork(NULL, NULL, fresh_lock);
}

TVMFFIByteArray keep_bytes(TVMFFIByteArray bytes) {
  char* copy = malloc(bytes.size + 1);
  if (!copy) return (TVMFFIByteArray){NULL, 0};
  if (bytes.size) memcpy(copy, bytes.data, bytes.size);
  copy[bytes.size] = '\0';
  return (TVMFFIByteArray){copy, bytes.size};
}

int same_bytes(TVMFFIByteArray a, TVMFFIByteArray b) {
  return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

// ---- names -------------------------------------------------------------------------------------

static size_t slot_of(const Names* names, TVMFFIByteArray key) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (size_t i = 0; i < key.size; ++i) hash = (hash ^ (uint8_t)key.data[i]) * 1099511628211ull;
  size_t slot = hash & (names->capacity - 1);
  while (names->keys[slot].data && !same_bytes(names->keys[slot], key)) {
    slot = (slot + 1) & (names->capacity - 1);
  }
  return slot;
}

int32_t names_find(const Names* names, TVMFFIByteArray key) {
  if (!names->used) return -1;
  size_t slot = slot_of(names, key);
  return names->keys[slot].data ? names->values[slot] : -1;
}

static int grow(Names* names) {
  Names larger = {.capacity = names->capacity ? 2 * names->capacity : 256};
  larger.keys = calloc(larger.capacity, sizeof *larger.keys);
  larger.values = calloc(larger.capacity, sizeof *larger.values);
  if (!larger.keys || !larger.values) {
    free(larger.keys);
    free(larger.values);
    return -1;
  }
  for (size_t i = 0; i < names->capacity; ++i) {
    if (!names->keys[i].data) continue;
    size_t slot = slot_of(&larger, names->keys[i]);
    larger.keys[slot] = names->keys[i];
    larger.values[slot] = names->values[i];
  }
  larger.used = names->used;
  free(names->keys);
  free(names->values);
  *names = larger;
  return 0;
}

int names_put(Names* names, TVMFFIByteArray key, int32_t value) {
  if (2 * names->used >= names->capacity && grow(names)) return -1;
  size_t slot = slot_of(names, key);
  names->used += !names->keys[slot].data;
  names->keys[slot] = key;
  names->values[slot] = value;
  return 0;
}

// ---- what is made once -------------------------------------------------------------------------

int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result)) {
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&once);
  int rc = 0;
  if (!*handle) {
    void* made = NULL;
    rc = init(&made);
    if (!rc && !made) {
      rc = fail("RuntimeError", "TVMFFIHandleInitOnce: the initialiser made nothing");
    }
    if (!rc) __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&once);
  return rc;
}

int TVMFFIHandleDeinitOnce(void** handle, int (*deinit)(void* handle)) {
  pthread_mutex_lock(&once);
  void* old = __atomic_exchange_n(handle, NULL, __ATOMIC_ACQ_REL);
  int rc = old ? deinit(old) : 0;
  pthread_mutex_unlock(&once);
  return rc;
}
