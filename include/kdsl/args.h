// kdsl/args.h: what the arguments of a kernel are made of, on the host and on a device; plain data.
#pragma once

namespace kdsl {

typedef long i64;

/// The first index of a call that was outside its tensor. `site` counts the checks of a kernel.
struct Fault {
  int found;
  int site;
  i64 index, size;
};

}  // namespace kdsl
