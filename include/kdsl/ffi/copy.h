// kdsl/ffi/copy.h: copy elements between two views of one shape and different strides.
#pragma once

#include <kdsl/cpu/kernel.h>

namespace kdsl {

/// Copies in squares over the last axis and the one along which the source lies closest, so that
/// a transposed source is read by whole cache lines. Strides count elements.
template <class Element>
void copy_elements(Element* to, const i64* to_strides, const Element* from,
                   const i64* from_strides, const i64* sizes, int ndim) {
  constexpr i64 kSquare = 32;
  auto distance = [&](int axis) {
    return from_strides[axis] < 0 ? -from_strides[axis] : from_strides[axis];
  };
  const int last = ndim - 1;
  int near = -1;
  for (int i = 0; i < last; ++i) {
    if (sizes[i] > 1 && (near < 0 || distance(i) < distance(near))) near = i;
  }
  const i64 rows = near < 0 ? 1 : sizes[near], columns = sizes[last];
  const i64 to_row = near < 0 ? 0 : to_strides[near], from_row = near < 0 ? 0 : from_strides[near];
  const i64 to_column = to_strides[last], from_column = from_strides[last];

  i64 index[16] = {};
  for (;;) {
    for (i64 r = 0; r < rows; r += kSquare) {
      for (i64 c = 0; c < columns; c += kSquare) {
        const i64 r_end = r + kSquare < rows ? r + kSquare : rows;
        const i64 c_end = c + kSquare < columns ? c + kSquare : columns;
        for (i64 i = r; i < r_end; ++i) {
          for (i64 j = c; j < c_end; ++j) {
            to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
          }
        }
      }
    }
    // The next place of the other axes, the last of them fastest.
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      if (axis == near) continue;
      to += to_strides[axis];
      from += from_strides[axis];
      if (++index[axis] < sizes[axis]) break;
      to -= to_strides[axis] * sizes[axis];
      from -= from_strides[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

/// The same for elements of 1, 2, 4 or 8 bytes. No axis is empty; there is at least one.
inline void copy_elements(i64 element_bytes, void* to, const i64* to_strides, const void* from,
                          const i64* from_strides, const i64* sizes, int ndim) {
  auto copy = [&](auto element) {
    using Element = decltype(element);
    copy_elements(static_cast<Element*>(to), to_strides, static_cast<const Element*>(from),
                  from_strides, sizes, ndim);
  };
  switch (element_bytes) {
    case 1: return copy(static_cast<unsigned char>(0));
    case 2: return copy(static_cast<unsigned short>(0));
    case 4: return copy(0u);
    default: return copy(0ul);
  }
}

}  // namespace kdsl
