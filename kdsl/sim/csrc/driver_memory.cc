// libcuda's functions over the simulator: memory. Device memory is memory of the host that kernels
// may touch; copies have ended when they return.
#include <cstdlib>

#include "device.h"
#include "heap.h"

#define CU extern "C" __attribute__((visibility("default"))) int

namespace {

using namespace sim;

int allocate(u64* address, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  *address = Heap::get().allocate(bytes, true, "device memory");
  return *address ? kSuccess : kOutOfMemory;
}

int release(u64 address) {
  if (!address || Heap::get().release(address)) return kSuccess;
  return fail(kInvalidValue, "no allocation begins at this address");
}

/// Whether `bytes` at `address` lie in one allocation. Memory of the host outside of them is none
/// of ours to check.
bool inside(u64 address, size_t bytes) {
  const Allocation* a = Heap::get().find(address);
  return a && a->size - (address - a->base) >= bytes;
}

int copy(u64 to, u64 from, size_t bytes, bool to_device, bool from_device) {
  if (to_device && !inside(to, bytes)) {
    return fail(kInvalidValue, "the copy writes outside of an allocation");
  }
  if (from_device && !inside(from, bytes)) {
    return fail(kInvalidValue, "the copy reads outside of an allocation");
  }
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  Heap::get().mark_written(to, bytes);
  return kSuccess;
}

u64 number(const void* p) { return reinterpret_cast<u64>(p); }

template <class T>
int fill(u64 address, T value, size_t count) {
  if (!inside(address, count * sizeof(T))) {
    return fail(kInvalidValue, "the memory to set lies outside of an allocation");
  }
  for (size_t k = 0; k < count; k++) memcpy(reinterpret_cast<T*>(address) + k, &value, sizeof(T));
  Heap::get().mark_written(address, count * sizeof(T));
  return kSuccess;
}

}  // namespace

CU cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  *free_bytes = *total = kDeviceMemory;
  return kSuccess;
}
CU cuMemAlloc_v2(u64* address, size_t bytes) { return allocate(address, bytes); }
CU cuMemFree_v2(u64 address) { return release(address); }
CU cuMemAllocAsync(u64* address, size_t bytes, void*) { return allocate(address, bytes); }
CU cuMemFreeAsync(u64 address, void*) { return release(address); }

CU cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  if (bytes == 0) return kInvalidValue;
  const u64 address = Heap::get().allocate(bytes, false, "pinned host memory");
  *block = reinterpret_cast<void*>(address);
  return address ? kSuccess : kOutOfMemory;
}
CU cuMemAllocHost_v2(void** block, size_t bytes) { return cuMemHostAlloc(block, bytes, 0); }
CU cuMemFreeHost(void* block) { return release(number(block)); }
CU cuMemHostGetDevicePointer_v2(u64* address, void* block, unsigned) {
  *address = number(block);
  return inside(*address, 1) ? kSuccess : kInvalidValue;
}
CU cuMemHostRegister_v2(void* block, size_t bytes, unsigned) {
  Heap::get().add(number(block), bytes, "registered host memory");
  return kSuccess;
}
CU cuMemHostUnregister(void* block) { return release(number(block)); }

CU cuMemcpy(u64 to, u64 from, size_t bytes) { return copy(to, from, bytes, false, false); }
CU cuMemcpyAsync(u64 to, u64 from, size_t bytes, void*) {
  return copy(to, from, bytes, false, false);
}
CU cuMemcpyHtoD_v2(u64 to, const void* from, size_t bytes) {
  return copy(to, number(from), bytes, true, false);
}
CU cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t bytes, void*) {
  return copy(to, number(from), bytes, true, false);
}
CU cuMemcpyDtoH_v2(void* to, u64 from, size_t bytes) {
  return copy(number(to), from, bytes, false, true);
}
CU cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t bytes, void*) {
  return copy(number(to), from, bytes, false, true);
}
CU cuMemcpyDtoD_v2(u64 to, u64 from, size_t bytes) { return copy(to, from, bytes, true, true); }
CU cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, void*) {
  return copy(to, from, bytes, true, true);
}
CU cuMemsetD8_v2(u64 address, u8 value, size_t count) { return fill(address, value, count); }
CU cuMemsetD16_v2(u64 address, u16 value, size_t count) { return fill(address, value, count); }
CU cuMemsetD32_v2(u64 address, u32 value, size_t count) { return fill(address, value, count); }
CU cuMemsetD8Async(u64 address, u8 value, size_t count, void*) {
  return fill(address, value, count);
}
CU cuMemsetD16Async(u64 address, u16 value, size_t count, void*) {
  return fill(address, value, count);
}
CU cuMemsetD32Async(u64 address, u32 value, size_t count, void*) {
  return fill(address, value, count);
}

/// Only what asks "is this device memory": context, memory type, device pointer, ordinal.
CU cuPointerGetAttribute(void* data, int attribute, u64 address) {
  if (!inside(address, 1)) return kInvalidValue;
  switch (attribute) {
    case 1:
      *static_cast<void**>(data) = nullptr;
      return kSuccess;
    case 2:
      *static_cast<unsigned*>(data) = 2;
      return kSuccess;
    case 3:
      *static_cast<u64*>(data) = address;
      return kSuccess;
    case 9:
      *static_cast<int*>(data) = 0;
      return kSuccess;
    default:
      return kNotSupported;
  }
}
