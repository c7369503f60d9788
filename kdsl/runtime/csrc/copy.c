// copy.c: compact copies of tensors in host memory.
#include <string.h>

#include "core.h"

int rt_is_compact(const DLTensor* tensor) {
  int64_t step = 1;
  int compact = 1;
  for (int i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] == 0) return 1;
    if (tensor->shape[i] != 1 && tensor->strides && tensor->strides[i] != step) compact = 0;
    step *= tensor->shape[i];
  }
  return compact;
}

// Copy one axis after the other; the last one element by element.
static char* copy_axes(char* to, const char* from, const DLTensor* tensor, int axis, size_t size) {
  if (axis == tensor->ndim) {
    memcpy(to, from, size);
    return to + size;
  }
  ptrdiff_t step = (ptrdiff_t)tensor->strides[axis] * (ptrdiff_t)size;
  for (int64_t i = 0; i < tensor->shape[axis]; ++i, from += step) {
    to = copy_axes(to, from, tensor, axis + 1, size);
  }
  return to;
}

RtTensor* rt_tensor_copy(const DLTensor* tensor) {
  size_t bits = (size_t)tensor->dtype.bits * tensor->dtype.lanes;
  int compact = rt_is_compact(tensor);
  if (!rt_is_host(tensor->device) || (!compact && bits % 8)) {
    rt_error_set("ValueError", "cannot copy a tensor: expected one of whole bytes in host memory");
    return NULL;
  }
  RtTensor* copy = rt_tensor_new(tensor->ndim, tensor->shape, tensor->dtype);
  int64_t count = copy ? rt_numel(tensor) : 0;
  if (count == 0) return copy;
  const char* from = (const char*)tensor->data + tensor->byte_offset;
  if (compact)
    memcpy(copy->tensor.data, from, ((size_t)count * bits + 7) / 8);
  else
    copy_axes(copy->tensor.data, from, tensor, 0, bits / 8);
  return copy;
}
