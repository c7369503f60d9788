// locks.c: a lock for each List and Dict, where there is no GIL; some share one.
#include "handle.h"

#ifdef Py_GIL_DISABLED
#include <pthread.h>

#define LOCKS 64

static pthread_mutex_t locks[LOCKS];

static pthread_mutex_t* lock_of(const TVMFFIObject* object) {
  uintptr_t at = (uintptr_t)object;
  return &locks[(at >> 4 ^ at >> 10) % LOCKS];
}

void rt_lock(const TVMFFIObject* object) { pthread_mutex_lock(lock_of(object)); }
void rt_unlock(const TVMFFIObject* object) { pthread_mutex_unlock(lock_of(object)); }

// In the order of their addresses, as everyone does.
void rt_lock_both(const TVMFFIObject* a, const TVMFFIObject* b) {
  pthread_mutex_t *first = lock_of(a), *second = lock_of(b);
  if (first > second) first = second, second = lock_of(a);
  pthread_mutex_lock(first);
  if (second != first) pthread_mutex_lock(second);
}

void rt_unlock_both(const TVMFFIObject* a, const TVMFFIObject* b) {
  pthread_mutex_unlock(lock_of(a));
  if (lock_of(b) != lock_of(a)) pthread_mutex_unlock(lock_of(b));
}

// A child has this thread alone, and finds no lock that another one held.
static void lock_all(void) {
  for (int i = 0; i < LOCKS; ++i) pthread_mutex_lock(&locks[i]);
}

static void unlock_all(void) {
  for (int i = 0; i < LOCKS; ++i) pthread_mutex_unlock(&locks[i]);
}

int rt_locks_init(void) {
  static int done;
  if (done) return 0;
  for (int i = 0; i < LOCKS; ++i) pthread_mutex_init(&locks[i], NULL);
  if (pthread_atfork(lock_all, unlock_all, unlock_all)) {
    PyErr_NoMemory();
    return -1;
  }
  done = 1;
  return 0;
}
#endif
