// Integer arithmetic: add sub mul mad div rem min max abs neg, carries, dot products.
#include <algorithm>

#include "ops.h"

namespace sim {
namespace integer_ops {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, i32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, i64, u64>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// Narrow types become int in C++; the cast brings the result back. Overflow wraps.
struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));
  }
};
struct MulLo {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<Wide<T>>>(a) * static_cast<Unsigned<Wide<T>>>(b));
  }
};
template <>
i64 MulLo::apply(i64 a, i64 b) {
  return static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b));
}
template <>
u64 MulLo::apply(u64 a, u64 b) {
  return a * b;
}
template <>
u32 MulLo::apply(u32 a, u32 b) {
  return a * b;
}
template <>
i32 MulLo::apply(i32 a, i32 b) {
  return static_cast<i32>(static_cast<u32>(a) * static_cast<u32>(b));
}
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <class T>
  static Wide<T> apply(T a, T b) {
    return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
  }
};
template <class M>
struct Plus {  // mad: M, and the third operand added
  template <class T, class C>
  static C apply(T a, T b, C c) {
    return Add::apply<C>(static_cast<C>(M::template apply<T>(a, b)), c);
  }
};
struct AddSat {
  static i32 apply(i32 a, i32 b) {
    return static_cast<i32>(std::clamp<i64>(i64{a} + b, INT32_MIN, INT32_MAX));
  }
};
struct SubSat {
  static i32 apply(i32 a, i32 b) {
    return static_cast<i32>(std::clamp<i64>(i64{a} - b, INT32_MIN, INT32_MAX));
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(-1);  // unspecified by PTX; what devices give
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub::apply<T>(0, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return Sub::apply<T>(0, a);
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return a < 0 ? Sub::apply<T>(0, a) : a;
  }
};
struct Sad {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply<T>(c, a < b ? Sub::apply<T>(b, a) : Sub::apply<T>(a, b));
  }
};
struct Mul24 {
  template <class T>
  static T apply(T a, T b) {
    const auto cut = [](T v) { return static_cast<T>(static_cast<u32>(v) << 8) >> 8; };
    return static_cast<T>(static_cast<i64>(cut(a)) * static_cast<i64>(cut(b)));
  }
};

/// add.cc and its kin: the carry is a register of its own, 0 or 1.
template <class T, bool Subtract, bool CarryIn, bool CarryOut>
void carry(Exec& x, const Ins& i, u32 m) {
  using S = Slot<T>;
  S* d = x.row<S>(i.row[0]);
  const S* a = x.row<S>(i.row[1]);
  const S* b = x.row<S>(i.row[2]);
  u32* flag = x.row<u32>(i.row[3]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const unsigned __int128 c = CarryIn ? flag[l] : 0;
    const unsigned __int128 r = Subtract ? static_cast<unsigned __int128>(a[l]) - b[l] - c
                                         : static_cast<unsigned __int128>(a[l]) + b[l] + c;
    d[l] = static_cast<T>(r);
    if (CarryOut) flag[l] = static_cast<u32>(r >> (8 * sizeof(T))) & 1;
  }
}

template <class T, bool High>
void mad_carry(Exec& x, const Ins& i, u32 m) {  // imm: 1 carry in, 2 carry out
  T* d = x.row<T>(i.row[0]);
  const T *a = x.row<T>(i.row[1]), *b = x.row<T>(i.row[2]), *c = x.row<T>(i.row[3]);
  u32* flag = x.row<u32>(i.row[4]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const T product = High ? MulHi::apply<T>(a[l], b[l]) : MulLo::apply<T>(a[l], b[l]);
    const unsigned __int128 r = static_cast<unsigned __int128>(static_cast<Unsigned<T>>(product)) +
                                static_cast<Unsigned<T>>(c[l]) + (i.imm[0] & 1 ? flag[l] : 0);
    d[l] = static_cast<T>(r);
    if (i.imm[0] & 2) flag[l] = static_cast<u32>(r >> (8 * sizeof(T))) & 1;
  }
}

template <bool SignedA, bool SignedB, int Parts>
void dot_product(Exec& x, const Ins& i, u32 m) {  // dp4a; dp2a: imm says which half of b
  u32* d = x.row<u32>(i.row[0]);
  const u32 *a = x.row<u32>(i.row[1]), *b = x.row<u32>(i.row[2]), *c = x.row<u32>(i.row[3]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    u32 sum = c[l];
    for (int k = 0; k < Parts; k++) {
      const u32 pa = Parts == 4 ? a[l] >> (8 * k) : a[l] >> (16 * k);
      const u32 pb = b[l] >> (8 * (k + i.imm[0]));
      const i32 va = Parts == 4 ? (SignedA ? static_cast<i8>(pa) : static_cast<u8>(pa))
                                : (SignedA ? static_cast<i16>(pa) : static_cast<u16>(pa));
      const i32 vb = SignedB ? static_cast<i8>(pb) : static_cast<u8>(pb);
      sum += static_cast<u32>(va * vb);
    }
    d[l] = sum;
  }
}

/// What the type and the name leave to another file.
bool is_float(Decoder& d) {
  const Type t = d.type();
  return t == kF32 || t == kF64 || t == kF16 || t == kF16x2 || t == kBf16 || t == kBf16x2;
}

template <bool Subtract>
void decode_add(Decoder& d) {
  if (is_float(d)) return Subtract ? decode_float_sub(d) : decode_float_add(d);
  const Type t = d.type();
  const bool with = d.op()[0].back() == 'c';
  const bool sets = d.has("cc");
  if (with || sets) {
    const bool wide = width_of(t) == kLong;
    Handler h;
    if (wide) {
      h = with ? (sets ? carry<u64, Subtract, true, true> : carry<u64, Subtract, true, false>)
               : carry<u64, Subtract, false, true>;
    } else {
      h = with ? (sets ? carry<u32, Subtract, true, true> : carry<u32, Subtract, true, false>)
               : carry<u32, Subtract, false, true>;
    }
    const int flag = d.carry();
    d.emit(h, {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), t)),
               Arg{flag, !with && sets}});
    return;
  }
  if (d.has("sat")) {
    emit_same(d, binary<i32, i32, i32, std::conditional_t<Subtract, SubSat, AddSat>>, t, 3);
    return;
  }
  if (d.has("u16x2") || d.has("s16x2")) d.unsupported();
  emit_same(d, binary_of<std::conditional_t<Subtract, Sub, Add>>(t), t, 3);
}

template <class F>
Handler widening(Type t) {
  switch (t) {
    case kU16:
      return binary<u32, u16, u16, F>;
    case kS16:
      return binary<i32, i16, i16, F>;
    case kU32:
      return binary<u64, u32, u32, F>;
    case kS32:
      return binary<i64, i32, i32, F>;
    default:
      return nullptr;
  }
}

template <class F>
Handler widening3(Type t) {
  switch (t) {
    case kU16:
      return ternary<u32, u16, u16, u32, F>;
    case kS16:
      return ternary<i32, i16, i16, i32, F>;
    case kU32:
      return ternary<u64, u32, u32, u64, F>;
    case kS32:
      return ternary<i64, i32, i32, i64, F>;
    default:
      return nullptr;
  }
}

template <class F>
Handler ternary_of(Type t) {
  switch (t) {
    case kU16:
    case kB16:
      return ternary<u16, u16, u16, u16, F>;
    case kS16:
      return ternary<i16, i16, i16, i16, F>;
    case kU32:
    case kB32:
      return ternary<u32, u32, u32, u32, F>;
    case kS32:
      return ternary<i32, i32, i32, i32, F>;
    case kU64:
    case kB64:
      return ternary<u64, u64, u64, u64, F>;
    case kS64:
      return ternary<i64, i64, i64, i64, F>;
    default:
      return nullptr;
  }
}

Type doubled(Type t) {
  switch (t) {
    case kU16:
      return kU32;
    case kS16:
      return kS32;
    case kU32:
      return kU64;
    default:
      return kS64;
  }
}

void decode_mul(Decoder& d) {
  if (is_float(d)) return decode_float_mul(d);
  const Type t = d.type();
  if (d.has("wide")) {
    const Handler h = widening<MulWide>(t);
    if (!h) d.unsupported();
    d.emit(h, {out(d.def(d.at(0), doubled(t))), in(d.use(d.at(1), t)), in(d.use(d.at(2), t))});
    return;
  }
  emit_same(d, d.has("hi") ? binary_of<MulHi>(t) : binary_of<MulLo>(t), t, 3);
}

void decode_mad(Decoder& d) {
  if (is_float(d)) return decode_float_fma(d);
  const Type t = d.type();
  const bool with = d.op()[0] == "madc";
  if (with || d.has("cc")) {
    const bool hi = d.has("hi");
    Handler h = nullptr;
    if (t == kU32) h = hi ? mad_carry<u32, true> : mad_carry<u32, false>;
    if (t == kS32) h = hi ? mad_carry<i32, true> : mad_carry<i32, false>;
    if (t == kU64) h = hi ? mad_carry<u64, true> : mad_carry<u64, false>;
    if (t == kS64) h = hi ? mad_carry<i64, true> : mad_carry<i64, false>;
    if (!h) d.unsupported();
    const int flag = d.carry();
    d.emit(h, {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), t)),
               in(d.use(d.at(3), t)), Arg{flag, !with}})
        .imm[0] = (with ? 1 : 0) | (d.has("cc") ? 2 : 0);
    return;
  }
  if (d.has("wide")) {
    const Handler h = widening3<Plus<MulWide>>(t);
    if (!h) d.unsupported();
    d.emit(h, {out(d.def(d.at(0), doubled(t))), in(d.use(d.at(1), t)), in(d.use(d.at(2), t)),
               in(d.use(d.at(3), doubled(t)))});
    return;
  }
  emit_same(d, d.has("hi") ? ternary_of<Plus<MulHi>>(t) : ternary_of<Plus<MulLo>>(t), t, 4);
}

void decode_mul24(Decoder& d) {
  const Type t = d.type();
  if (d.has("hi")) d.unsupported();
  const bool mad = d.op()[0] == "mad24";
  Handler h = mad ? ternary<u32, u32, u32, u32, Plus<Mul24>> : binary<u32, u32, u32, Mul24>;
  if (t == kS32) h = mad ? ternary<i32, i32, i32, i32, Plus<Mul24>> : binary<i32, i32, i32, Mul24>;
  emit_same(d, h, t, mad ? 4 : 3);
}

void decode_div(Decoder& d) {
  if (is_float(d)) return decode_float_div(d);
  emit_same(d, binary_of<Div>(d.type()), d.type(), 3);
}

template <class F, DecodeOp Float>
void decode_minmax(Decoder& d) {
  if (is_float(d)) return Float(d);
  emit_same(d, binary_of<F>(d.type()), d.type(), 3);
}

template <class F, DecodeOp Float>
void decode_sign(Decoder& d) {
  if (is_float(d)) return Float(d);
  emit_same(d, unary_of<F>(d.type()), d.type(), 2);
}

void decode_dot(Decoder& d) {
  const std::vector<Type> t = d.types();
  const bool four = d.op()[0] == "dp4a";
  if (t.size() != 2) d.unsupported();
  const bool sa = t[0] == kS32, sb = t[1] == kS32;
  Handler h = four ? (sa ? (sb ? dot_product<1, 1, 4> : dot_product<1, 0, 4>)
                         : (sb ? dot_product<0, 1, 4> : dot_product<0, 0, 4>))
                   : (sa ? (sb ? dot_product<1, 1, 2> : dot_product<1, 0, 2>)
                         : (sb ? dot_product<0, 1, 2> : dot_product<0, 0, 2>));
  emit_same(d, h, kB32, 4).imm[0] = d.has("hi") ? 2 : 0;
}

}  // namespace integer_ops

void add_integer_ops(OpTable& t) {
  using namespace integer_ops;
  t["add"] = t["addc"] = decode_add<false>;
  t["sub"] = t["subc"] = decode_add<true>;
  t["mul"] = decode_mul;
  t["mad"] = t["madc"] = decode_mad;
  t["mul24"] = t["mad24"] = decode_mul24;
  t["div"] = decode_div;
  t["rem"] = [](Decoder& d) { emit_same(d, binary_of<Rem>(d.type()), d.type(), 3); };
  t["min"] = decode_minmax<Min, decode_float_min>;
  t["max"] = decode_minmax<Max, decode_float_max>;
  t["neg"] = decode_sign<Neg, decode_float_neg>;
  t["abs"] = decode_sign<Abs, decode_float_abs>;
  t["sad"] = [](Decoder& d) { emit_same(d, ternary_of<Sad>(d.type()), d.type(), 4); };
  t["dp4a"] = t["dp2a"] = decode_dot;
}

}  // namespace sim
