// kdsl/cuda/copy.h: copies between two views of one shape and any strides, by one kernel for all.
#pragma once

#include <kdsl/args.h>

namespace kdsl {

/// What the host passes by value. Strides count elements.
struct CopyArgs {
  static constexpr int kMaxDims = 8;
  void* to;
  const void* from;
  i64 count;
  i64 sizes[kMaxDims];
  i64 to_strides[kMaxDims];
  i64 from_strides[kMaxDims];
  int ndim;
  /// 1, 2, 4 or 8.
  int element_bytes;
};

}  // namespace kdsl
