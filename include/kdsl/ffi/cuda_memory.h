// kdsl/ffi/cuda_memory.h: memory of a GPU for one call, and tensors of our own in it.
#pragma once

#include <kdsl/ffi/cuda_module.h>

namespace kdsl {

/// A tensor on a GPU from the caller's framework; null where there is none, or it has no memory.
KDSL_COLD inline KdslTensorObject* borrow_tensor(const DLTensor& prototype) {
  if (__kdsl_rt && __kdsl_rt->alloc_tensor) {
    void* made = nullptr;
    if (__kdsl_rt->alloc_tensor(&prototype, &made) == 0) {
      return static_cast<KdslTensorObject*>(made);
    }
  }
  return new_tvm_ffi_tensor(prototype);
}

/// A Tensor object of our own on a GPU: head, shape and strides in one block, elements there.
KDSL_COLD inline KdslTensorObject* new_cuda_tensor(const CudaDriver& driver, const CudaGpu& gpu,
                                                   const DLTensor& prototype) {
  struct Owned {
    KdslTensorObject object;
    CudaAddress address;
    CudaDevice device;
    void* context;
  };
  const i64 bytes = byte_count(prototype);
  auto* owned =
      static_cast<Owned*>(kdsl_malloc(sizeof(Owned) + 2 * sizeof(int64_t) * prototype.ndim));
  if (!owned) return nullptr;
  CudaAddress address = 0;
  if (driver.memory_alloc(&address, bytes > 0 ? bytes : 1)) {
    kdsl_free(owned);
    return nullptr;
  }
  owned->address = address;
  owned->device = gpu.device;
  owned->context = gpu.context;
  owned->object.head = {
      KDSL_REF_COUNT_ONE, kTVMFFITensor, 0, [](void* self, int flags) {
        auto* owned = static_cast<Owned*>(self);
        Text text;
        CudaResult result = 0;
        CudaCurrent current;
        // What still runs on the GPU ends before the memory is free.
        if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
          const CudaDriver* driver = CudaDriver::started();
          if (driver && !current.enter(*driver, owned->device, owned->context, result)) {
            driver->memory_free(owned->address);
          }
        }
        if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
      }};
  auto* shape = reinterpret_cast<int64_t*>(owned + 1);
  int64_t* strides = shape + prototype.ndim;
  uint64_t stride = 1;
  for (int i = prototype.ndim - 1; i >= 0; --i) {
    shape[i] = prototype.shape[i];
    strides[i] = static_cast<i64>(stride);
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  owned->object.tensor = prototype;
  owned->object.tensor.data = reinterpret_cast<void*>(address);
  owned->object.tensor.shape = shape;
  owned->object.tensor.strides = strides;
  owned->object.tensor.byte_offset = 0;
  return &owned->object;
}

/// Blocks of GPU memory that a call uses. They are freed in the order of its stream.
class CudaBlocks {
 public:
  CudaBlocks() = default;
  CudaBlocks(const CudaBlocks&) = delete;
  CudaBlocks& operator=(const CudaBlocks&) = delete;

  /// At least `bytes` > 0, aligned to 256; 0 and the failure in `why` where there are none.
  KDSL_COLD CudaAddress get(const CudaDriver& driver, const CudaGpu& gpu, void* stream, i64 bytes,
                            CudaFailure& why) {
    constexpr i64 kAlign = 256;
    auto* block = static_cast<Block*>(kdsl_malloc(sizeof(Block)));
    if (!block) {
      why.note("malloc", kCudaOutOfMemory);
      return 0;
    }
    // Frameworks align to 256 and more, but owe it to nobody.
    int64_t size = bytes + kAlign;
    const DLTensor prototype = {nullptr, {kDLCUDA, gpu.ordinal}, 1, kU8, &size, nullptr, 0};
    *block = {blocks_, borrow_tensor(prototype), 0, false};
    CudaAddress address = 0;
    if (block->tensor) {
      const DLTensor& tensor = block->tensor->tensor;
      address = reinterpret_cast<CudaAddress>(tensor.data) + tensor.byte_offset;
      address = (address + kAlign - 1) & ~CudaAddress{kAlign - 1};
    } else {
      block->is_async = gpu.has_pools;
      const CudaResult result = gpu.has_pools
                                    ? driver.memory_alloc_async(&block->address, bytes, stream)
                                    : driver.memory_alloc(&block->address, bytes);
      if (result) {
        why.note(gpu.has_pools ? "cuMemAllocAsync" : "cuMemAlloc", result);
        kdsl_free(block);
        return 0;
      }
      address = block->address;
    }
    blocks_ = block;
    return address;
  }

  /// Free all: what was queued on the stream before runs with them.
  KDSL_COLD void release(const CudaDriver& driver, void* stream) {
    bool waited = false;
    while (Block* block = blocks_) {
      blocks_ = block->next;
      if (block->tensor) {
        // The allocator that gave it reuses it in the order of the same stream.
        kdsl::release(&block->tensor->head);
      } else if (block->is_async) {
        driver.memory_free_async(block->address, stream);
      } else {
        if (!waited) driver.stream_synchronize(stream);
        waited = true;
        driver.memory_free(block->address);
      }
      kdsl_free(block);
    }
  }

  bool is_empty() const { return !blocks_; }

 private:
  struct Block {
    Block* next;
    KdslTensorObject* tensor;
    CudaAddress address;
    bool is_async;
  };
  Block* blocks_ = nullptr;
};

}  // namespace kdsl
