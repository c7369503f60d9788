// loaded.h: symbols of whatever else is in the process; safe over fork, and cheap where nothing new
// was loaded. The core and our libtvm_ffi.so have a copy each.
#pragma once

/// A symbol that is looked for, and what was found when so many libraries had come and gone.
typedef struct {
  const char* symbol;
  const char* library;  ///< where it may be hidden from the rest of the process
  void* address;
  unsigned long long seen;
} RtLoaded;

/// Its address now; NULL: nowhere. Needs no GIL.
void* rt_loaded_symbol(RtLoaded* wanted);
/// Keep fork away while the dynamic linker is asked.
void rt_loader_hold(void);
void rt_loader_let_go(void);
