// kdsl/ffi/overlap.h: do two views of memory share a byte? Exact; "yes" when that takes too long.
#pragma once

#include <kdsl/cpu/kernel.h>
#include <kdsl/ffi/text.h>

namespace kdsl {

/// Where a view's elements lie. Strides count bytes.
struct Region {
  static constexpr int kMaxDims = 8;

  /// Address of element [0, 0, ...].
  i64 base;
  i64 element_bytes;
  int ndim;
  i64 shape[kMaxDims];
  i64 strides[kMaxDims];

  bool is_empty() const {
    for (int i = 0; i < ndim; ++i) {
      if (shape[i] == 0) return true;
    }
    return false;
  }
  i64 first_byte() const {
    i64 at = base;
    for (int i = 0; i < ndim; ++i) at += strides[i] < 0 ? strides[i] * (shape[i] - 1) : 0;
    return at;
  }
  i64 end_byte() const {
    i64 at = base + element_bytes;
    for (int i = 0; i < ndim; ++i) at += strides[i] > 0 ? strides[i] * (shape[i] - 1) : 0;
    return at;
  }
  bool is_same_view(const Region& other) const {
    if (base != other.base || ndim != other.ndim || element_bytes != other.element_bytes) {
      return false;
    }
    for (int i = 0; i < ndim; ++i) {
      if (shape[i] != other.shape[i]) return false;
      if (shape[i] > 1 && strides[i] != other.strides[i]) return false;
    }
    return true;
  }
};

/// Searches whole numbers x[k] in [low[k], high[k]] with sum(step[k] * x[k]) in [from, to].
///
/// Elements i of view a and j of view b share a byte exactly when such numbers exist for the
/// difference of their addresses; axes of equal stride count as one. Steps are sorted, largest
/// first: what the smaller ones can still reach bounds the choices for a larger one to two or
/// three when a view's axes are nested, which those of real tensors are.
class OverlapSearch {
 public:
  KDSL_COLD OverlapSearch(const Region& a, const Region& b) {
    for (int i = 0; i < a.ndim; ++i) add(a.strides[i], a.shape[i] - 1);
    for (int i = 0; i < b.ndim; ++i) add(-b.strides[i], b.shape[i] - 1);
    const i64 gap = b.base - a.base;
    from_ = gap - (a.element_bytes - 1);
    to_ = gap + (b.element_bytes - 1);
  }

  KDSL_COLD bool found() { return search(0, from_, to_); }

 private:
  static constexpr int kMaxTerms = 2 * Region::kMaxDims;
  static constexpr int kMaxSteps = 20000;

  KDSL_COLD void add(i64 step, i64 count) {
    if (step == 0 || count == 0) return;
    const i64 low = step < 0 ? -count : 0, high = step < 0 ? 0 : count;
    step = step < 0 ? -step : step;
    int at = 0;
    while (at < terms_ && step_[at] > step) ++at;
    if (at == terms_ || step_[at] != step) {
      for (int i = terms_++; i > at; --i) {
        step_[i] = step_[i - 1];
        low_[i] = low_[i - 1];
        high_[i] = high_[i - 1];
      }
      step_[at] = step;
      low_[at] = high_[at] = 0;
    }
    low_[at] += low;
    high_[at] += high;
  }

  static i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0); }

  KDSL_COLD bool search(int term, i64 from, i64 to) {
    if (++steps_ > kMaxSteps) return true;
    if (term == terms_) return from <= 0 && 0 <= to;
    i64 least = 0, most = 0;
    for (int i = term + 1; i < terms_; ++i) {
      least += step_[i] * low_[i];
      most += step_[i] * high_[i];
    }
    i64 x = -floor_div(-(from - most), step_[term]);
    i64 last = floor_div(to - least, step_[term]);
    x = x < low_[term] ? low_[term] : x;
    last = last > high_[term] ? high_[term] : last;
    for (; x <= last; ++x) {
      if (search(term + 1, from - step_[term] * x, to - step_[term] * x)) return true;
    }
    return false;
  }

  int terms_ = 0;
  int steps_ = 0;
  i64 from_, to_;
  i64 step_[kMaxTerms], low_[kMaxTerms], high_[kMaxTerms];
};

/// Whether two views share a byte.
inline bool overlap(const Region& a, const Region& b) {
  if (a.is_empty() || b.is_empty()) return false;
  if (a.end_byte() <= b.first_byte() || b.end_byte() <= a.first_byte()) return false;
  return OverlapSearch(a, b).found();
}

/// Whether two elements of one view share a byte, as with stride 0.
KDSL_NOINLINE inline bool overlaps_itself(const Region& view) {
  // Axes that nest cannot: each steps over all that the smaller ones reach. Sorting few numbers.
  i64 step[Region::kMaxDims], count[Region::kMaxDims];
  int terms = 0;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.shape[i] == 0) return false;
    if (view.shape[i] == 1) continue;
    const i64 size = view.strides[i] < 0 ? -view.strides[i] : view.strides[i];
    int at = terms++;
    for (; at > 0 && step[at - 1] > size; --at) {
      step[at] = step[at - 1];
      count[at] = count[at - 1];
    }
    step[at] = size;
    count[at] = view.shape[i] - 1;
  }
  i64 reach = view.element_bytes;
  for (int i = 0; i < terms; ++i) {
    if (step[i] < reach) return true;
    reach += step[i] * count[i];
  }
  return false;
}

}  // namespace kdsl
