// ops.h: loops over the lanes of rows, for the handlers of arithmetic instructions.
//
// A functor F has `static R apply(A...)`, harmless for the values of lanes that do not take part. A
// result's row may be an operand's: all lanes are computed before any is written.
#pragma once
#include "decode.h"

namespace sim {

/// Put computed lanes where they belong: those of the mask.
template <class S>
inline void settle(S* d, const S* t, u32 m) {
  if (m == kAllLanes) {
    memcpy(d, t, kLanes * sizeof(S));
    return;
  }
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) d[l] = t[l];
  }
}

template <class R, class A, class F>
void unary(Exec& x, const Ins& i, u32 m) {
  const Slot<A>* a = x.row<const Slot<A>>(i.row[1]);
  Slot<R> t[kLanes];
  for (int l = 0; l < kLanes; l++) t[l] = put<R>(F::apply(get<A>(a[l])));
  settle(x.row<Slot<R>>(i.row[0]), t, m);
}

template <class R, class A, class B, class F>
void binary(Exec& x, const Ins& i, u32 m) {
  const Slot<A>* a = x.row<const Slot<A>>(i.row[1]);
  const Slot<B>* b = x.row<const Slot<B>>(i.row[2]);
  Slot<R> t[kLanes];
  for (int l = 0; l < kLanes; l++) t[l] = put<R>(F::apply(get<A>(a[l]), get<B>(b[l])));
  settle(x.row<Slot<R>>(i.row[0]), t, m);
}

template <class R, class A, class B, class C, class F>
void ternary(Exec& x, const Ins& i, u32 m) {
  const Slot<A>* a = x.row<const Slot<A>>(i.row[1]);
  const Slot<B>* b = x.row<const Slot<B>>(i.row[2]);
  const Slot<C>* c = x.row<const Slot<C>>(i.row[3]);
  Slot<R> t[kLanes];
  for (int l = 0; l < kLanes; l++) {
    t[l] = put<R>(F::apply(get<A>(a[l]), get<B>(b[l]), get<C>(c[l])));
  }
  settle(x.row<Slot<R>>(i.row[0]), t, m);
}

/// A word of predicate bits, the lanes of `m` replaced.
inline void set_bits(Exec& x, i32 offset, u32 bits, u32 m) {
  u32* p = x.row<u32>(offset);
  *p = (*p & ~m) | (bits & m);
}

template <class F>
Handler unary_of(Type t) {
  switch (t) {
    case kU8:
    case kB8:
      return unary<u8, u8, F>;
    case kS8:
      return unary<i8, i8, F>;
    case kU16:
    case kB16:
      return unary<u16, u16, F>;
    case kS16:
      return unary<i16, i16, F>;
    case kU32:
    case kB32:
      return unary<u32, u32, F>;
    case kS32:
      return unary<i32, i32, F>;
    case kU64:
    case kB64:
      return unary<u64, u64, F>;
    case kS64:
      return unary<i64, i64, F>;
    default:
      return nullptr;
  }
}

template <class F>
Handler binary_of(Type t) {
  switch (t) {
    case kU16:
    case kB16:
      return binary<u16, u16, u16, F>;
    case kS16:
      return binary<i16, i16, i16, F>;
    case kU32:
    case kB32:
      return binary<u32, u32, u32, F>;
    case kS32:
      return binary<i32, i32, i32, F>;
    case kU64:
    case kB64:
      return binary<u64, u64, u64, F>;
    case kS64:
      return binary<i64, i64, i64, F>;
    default:
      return nullptr;
  }
}

/// Emit `d = f(a, b, ...)`, all operands of one type.
inline Ins& emit_same(Decoder& d, Handler h, Type t, size_t operands) {
  if (!h) d.unsupported("of this type");
  if (d.count() != operands) d.unsupported("it has " + std::to_string(operands) + " operands");
  std::vector<Arg> args;
  for (size_t k = 1; k < operands; k++) args.push_back(in(d.use(d.at(k), t)));
  args.insert(args.begin(), out(d.def(d.at(0), t)));
  return d.emit(h, args);
}

}  // namespace sim
