// kdsl/ffi/copy.h: copy elements between two views of one shape and different strides.
#pragma once

#include <kdsl/cpu/kernel.h>
#include <kdsl/ffi/text.h>

namespace kdsl {

/// A matrix of elements that lie `row` and `column` elements apart.
struct Grid {
  char* data;
  i64 row;
  i64 column;
};

/// Copies in squares, so that a transposed source is read by whole cache lines.
template <class Element>
KDSL_NOINLINE void copy_grid(const Grid& to, const Grid& from, i64 rows, i64 columns) {
  constexpr i64 kSquare = 32;
  auto* target = reinterpret_cast<Element*>(to.data);
  const auto* source = reinterpret_cast<const Element*>(from.data);
  for (i64 r = 0; r < rows; r += kSquare) {
    for (i64 c = 0; c < columns; c += kSquare) {
      const i64 r_end = r + kSquare < rows ? r + kSquare : rows;
      const i64 c_end = c + kSquare < columns ? c + kSquare : columns;
      for (i64 i = r; i < r_end; ++i) {
        for (i64 j = c; j < c_end; ++j) {
          target[i * to.row + j * to.column] = source[i * from.row + j * from.column];
        }
      }
    }
  }
}

/// One view of a copy. Strides count elements.
struct Strided {
  char* data;
  const i64* strides;
};

/// Copy elements of 1, 2, 4 or 8 bytes. There is at least one axis, and none is empty.
KDSL_COLD inline void copy_elements(i64 element_bytes, Strided to, Strided from,
                                    const int64_t* sizes, int ndim) {
  using CopyGrid = void(const Grid&, const Grid&, i64, i64);
  CopyGrid* copy = element_bytes == 1   ? copy_grid<unsigned char>
                   : element_bytes == 2 ? copy_grid<unsigned short>
                   : element_bytes == 4 ? copy_grid<unsigned>
                                        : copy_grid<unsigned long>;
  // Columns are the last axis; rows are the axis along which the source lies closest.
  const int last = ndim - 1;
  auto distance = [&](int axis) {
    return from.strides[axis] < 0 ? -from.strides[axis] : from.strides[axis];
  };
  int near = -1;
  for (int i = 0; i < last; ++i) {
    if (sizes[i] > 1 && (near < 0 || distance(i) < distance(near))) near = i;
  }
  auto grid = [&](const Strided& view) {
    return Grid{view.data, near < 0 ? 0 : view.strides[near], view.strides[last]};
  };
  i64 index[16] = {};
  for (;;) {
    copy(grid(to), grid(from), near < 0 ? 1 : sizes[near], sizes[last]);
    // The next place of the other axes, the last of them fastest.
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      if (axis == near) continue;
      const bool more = ++index[axis] < sizes[axis];
      const i64 step = (more ? 1 : 1 - sizes[axis]) * element_bytes;
      to.data += step * to.strides[axis];
      from.data += step * from.strides[axis];
      if (more) break;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace kdsl
