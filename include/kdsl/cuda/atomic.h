// kdsl/cuda/atomic.h: additions to memory that other threads may be adding to as well.
#pragma once

#include <kdsl/cuda/memory.h>

namespace kdsl {

template <class T>
KDSL_DEV T from_bits(u32 bits) {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, bits);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(T, (u16)bits);
  else
    return __builtin_bit_cast(T, (u8)bits);
}
template <class T>
KDSL_DEV u32 to_bits(T x) {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(u32, x);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(u16, x);
  else
    return __builtin_bit_cast(u8, x);
}

/// *p += x, for every type: an exchange of the 1, 2, 4 or 8 bytes that it lies in.
template <class T, class V>
KDSL_DEV void add_each(T* p, V x) {
  if constexpr (sizeof(T) == 8) {
    typedef unsigned long long Word;
    Word* const word = (Word*)p;
    Word seen = *(volatile Word*)word, old;
    do {
      old = seen;
      const T sum = Encode<T>::of(decode(__builtin_bit_cast(T, old)) + x);
      seen = atomicCAS(word, old, __builtin_bit_cast(Word, sum));
    } while (seen != old);
  } else {
    // Narrow elements are parts of a 4-byte word that others may change meanwhile.
    u32* const word = (u32*)((u64)p & ~3ul);
    const int shift = (int)((u64)p & 3) * 8;
    constexpr u32 bits = sizeof(T) == 4 ? ~0u : (1u << (sizeof(T) % 4 * 8)) - 1;
    u32 seen = *(volatile u32*)word, old;
    do {
      old = seen;
      const T was = from_bits<T>((old >> shift) & bits);
      const u32 sum = to_bits(Encode<T>::of(decode(was) + x));
      seen = atomicCAS(word, old, (old & ~(bits << shift)) | sum << shift);
    } while (seen != old);
  }
}
KDSL_DEV void add_each(float* p, float x) { atomicAdd(p, x); }
KDSL_DEV void add_each(double* p, double x) { atomicAdd(p, x); }
KDSL_DEV void add_each(i32* p, i32 x) { atomicAdd(p, x); }
KDSL_DEV void add_each(u32* p, u32 x) { atomicAdd(p, x); }
KDSL_DEV void add_each(i64* p, i64 x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
KDSL_DEV void add_each(u64* p, u64 x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }

/// *p += x, where all threads have the same x: one of them adds it.
template <class T, class V>
KDSL_DEV void add_one(T* p, V x, bool) {
  if (member() == 0) add_each(p, x);
}
/// Each lane to an offset of its own; equal ones add up.
template <class T, class V, class L>
KDSL_DEV void add_at(T* p, Vec<i64> offsets, Vec<V> v, L n, bool) {
  if (is_real(n)) add_each(p + offsets.x, v.x);
}
/// Lanes that lie next to each other.
template <class T, class V, class L>
KDSL_DEV void add_run(T* p, Vec<V> v, L n, bool) {
  if (is_real(n)) add_each(p + member(), v.x);
}

}  // namespace kdsl
