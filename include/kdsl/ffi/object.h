// kdsl/ffi/object.h: references to objects of any runtime.
#pragma once

#include <kdsl/ffi/c_abi.h>

namespace kdsl {

/// Give up one reference to an object of any runtime; the last one ends it.
inline void release(TVMFFIObject* object) {
  constexpr uint64_t kStrongMask = 0xffffffffu, kWeakOne = uint64_t{1} << 32;
  const uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, 1, __ATOMIC_ACQ_REL);
  if (before == KDSL_REF_COUNT_ONE) {
    // Nobody else can come by a reference any more: one step for life and memory.
    if (object->deleter) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskBoth);
  } else if ((before & kStrongMask) == 1) {
    if (object->deleter) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskStrong);
    const uint64_t last =
        __atomic_fetch_sub(&object->combined_ref_count, kWeakOne, __ATOMIC_ACQ_REL);
    if (last == kWeakOne && object->deleter) {
      object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskWeak);
    }
  }
}

}  // namespace kdsl
