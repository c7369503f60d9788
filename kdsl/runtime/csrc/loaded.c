// loaded.c: symbols of whatever else is in the process, looked up again when that has changed.
//
// The dynamic linker's own structures do not survive a fork in the middle of a look-up: a lock that
// fork waits for is held around each of ours.
#define _GNU_SOURCE 1
#include "loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

void rt_loader_hold(void) { pthread_mutex_lock(&looking); }
void rt_loader_let_go(void) { pthread_mutex_unlock(&looking); }

__attribute__((constructor)) static void make_fork_safe(void) {
  pthread_atfork(rt_loader_hold, rt_loader_let_go, rt_loader_let_go);
}

// The number of libraries that have come and gone, and one, so that it is never 0.
static int count(struct dl_phdr_info* info, size_t size, void* out) {
  (void)size;
  *(unsigned long long*)out = info->dlpi_adds + info->dlpi_subs + 1;
  return 1;
}

static void* look_up(const RtLoaded* wanted) {
  void* found = dlsym(RTLD_DEFAULT, wanted->symbol);
  if (found) return found;
  void* library = dlopen(wanted->library, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return NULL;
  found = dlsym(library, wanted->symbol);
  dlclose(library);  // whoever loaded it holds it
  return found;
}

void* rt_loaded_symbol(RtLoaded* wanted) {
  unsigned long long now = 0;
  rt_loader_hold();
  dl_iterate_phdr(count, &now);
  if (now != wanted->seen) {
    wanted->address = look_up(wanted);
    wanted->seen = now;
  }
  void* found = wanted->address;
  rt_loader_let_go();
  return found;
}
