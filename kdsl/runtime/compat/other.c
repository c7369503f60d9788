// other.c: an official libtvm_ffi.so that comes into the process after this library.
//
// Two runtimes with state must not live in one process, but a vendored copy may be loaded at any
// time. Modules that are bound to this library keep calling it; what they then do to the state of
// the process is done by the official one, so that no error is lost between the two.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "../csrc/loaded.h"
#include "compat.h"

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static Official found;
static int is_found;
static unsigned long long seen = ~0ull;  // libraries that had come when we last looked

static int count_libraries(struct dl_phdr_info* info, size_t size, void* count) {
  (void)size;
  *(unsigned long long*)count = info->dlpi_adds;
  return 1;
}

typedef struct {
  char path[4096];
  int mine;
} Search;

// The path of a library with the official name that is not this one.
static int is_official(struct dl_phdr_info* info, size_t size, void* context) {
  (void)size;
  Search* search = context;
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libtvm_ffi", 11) || strstr(name, "testing")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    uintptr_t at = (uintptr_t)&found - info->dlpi_addr - part->p_vaddr;
    if (part->p_type == PT_LOAD && at < part->p_memsz) return 0;
  }
  snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
  return 1;
}

static int take(void* library) {
  const struct {
    const char* name;
    void* place;
  } wanted[] = {
      {"TVMFFIErrorMoveFromRaised", &found.error_move_from_raised},
      {"TVMFFIErrorSetRaised", &found.error_set_raised},
      {"TVMFFIFunctionGetGlobal", &found.function_get_global},
      {"TVMFFIFunctionSetGlobal", &found.function_set_global},
      {"TVMFFIEnvSetStream", &found.set_stream},
      {"TVMFFIEnvGetStream", &found.get_stream},
      {"TVMFFIEnvSetDLPackManagedTensorAllocator", &found.set_allocator},
      {"TVMFFIEnvGetDLPackManagedTensorAllocator", &found.get_allocator},
      {"TVMFFIEnvCheckSignals", &found.check_signals},
      {"TVMFFITypeGetOrAllocIndex", &found.type_get_or_alloc},
      {"TVMFFITypeKeyToIndex", &found.type_key_to_index},
      {"TVMFFIGetTypeInfo", &found.get_type_info},
      {"TVMFFITypeRegisterField", &found.register_field},
      {"TVMFFITypeRegisterMethod", &found.register_method},
      {"TVMFFITypeRegisterMetadata", &found.register_metadata},
      {"TVMFFITypeRegisterAttr", &found.register_attr},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i) {
    void* symbol = dlsym(library, wanted[i].name);
    if (!symbol) return 0;
    memcpy(wanted[i].place, &symbol, sizeof symbol);
  }
  return 1;
}

static COLD void look(void) {
  static __thread int inside;
  if (inside) return;
  inside = 1;
  Search search = {.path = ""};
  void* library = NULL;
  rt_loader_hold();
  if (dl_iterate_phdr(is_official, &search)) {
    library = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  }
  rt_loader_let_go();
  if (pthread_mutex_trylock(&looking) == 0) {  // else another thread is about it
    if (!is_found && library && take(library)) {
      share_types(&found);
      share_globals(&found);
      __atomic_store_n(&is_found, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&looking);
  }
  inside = 0;
}

const Official* official(void) {
  if (__atomic_load_n(&is_found, __ATOMIC_ACQUIRE)) return &found;
  unsigned long long now = 0;
  rt_loader_hold();
  dl_iterate_phdr(count_libraries, &now);
  rt_loader_let_go();
  if (now == __atomic_load_n(&seen, __ATOMIC_RELAXED)) return NULL;
  __atomic_store_n(&seen, now, __ATOMIC_RELAXED);
  look();
  return __atomic_load_n(&is_found, __ATOMIC_ACQUIRE) ? &found : NULL;
}
