// cvt between all types: integer and float, rounding, saturation, packed forms.
#include <cmath>
#include <limits>

#include "ops.h"

namespace sim {
namespace convert_ops {

/// imm of every conversion: rounding, and these.
enum Flags { kSat = 1, kFtz = 2, kToInteger = 4, kRelu = 8, kFinite = 16 };

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, Bf16>;
template <class T>
constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;

inline float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.f, v) : v; }

double whole(double v, Rounding r) {
  switch (r) {
    case kZero:
      return std::trunc(v);
    case kDown:
      return std::floor(v);
    case kUp:
      return std::ceil(v);
    default:
      return std::nearbyint(v);
  }
}

/// A double as a float, in any rounding.
float to_single(double v, Rounding r) {
  const float near = static_cast<float>(v);
  if (r == kNearest || v != v || near == v) return near;
  const bool larger = near > v;
  if (r == kUp) return larger ? near : std::nextafter(near, INFINITY);
  if (r == kDown) return larger ? std::nextafter(near, -INFINITY) : near;
  return (std::fabs(near) > std::fabs(v)) ? std::nextafter(near, 0.f) : near;
}

/// An integer as a float of `T`, rounded once: doubles hold 53 bits, the rest becomes a sticky bit.
template <class T, class I>
T from_integer(I v, Rounding r) {
  if constexpr (std::is_same_v<T, double>) {
    const double near = static_cast<double>(v);
    if (r == kNearest) return near;
    using Big = __int128;
    const Big exact = v, back = static_cast<Big>(near);
    if (back == exact) return near;
    const bool up = r == kUp || (r == kZero && exact < 0);
    if (up) return back > exact ? near : std::nextafter(near, INFINITY);
    return back < exact ? near : std::nextafter(near, -INFINITY);
  } else {
    const bool negative = v < 0;
    u64 a = negative ? 0 - static_cast<u64>(v) : static_cast<u64>(v);
    if (a >> 53) a = (a >> 11 | ((a & 2047) != 0)) << 11;
    // A sticky bit just below a float's last place decides ties as the lost bits would.
    const double d = negative ? -static_cast<double>(a) : static_cast<double>(a);
    if constexpr (std::is_same_v<T, float>)
      return to_single(d, r);
    else if constexpr (std::is_same_v<T, Half>)
      return to_half(d, r);
    else
      return to_bf16(d, r);
  }
}

template <class I>
I to_integer(double v, Rounding r, bool nan_is_zero) {
  if (v != v) {
    if (nan_is_zero) return 0;
    return static_cast<I>(1ull << (8 * sizeof(I) - 1));
  }
  const double w = whole(v, r);
  // The bounds as doubles: the upper one is the first value that does not fit.
  const double above = std::ldexp(1.0, std::is_signed_v<I> ? 8 * sizeof(I) - 1 : 8 * sizeof(I));
  const double least = std::is_signed_v<I> ? -above : 0;
  if (w >= above) return std::numeric_limits<I>::max();
  if (w <= least) return std::numeric_limits<I>::min();
  return static_cast<I>(w);
}

template <class D, class S>
D clamp_integer(S v) {
  using L = std::numeric_limits<D>;
  const __int128 w = v;
  if (w < static_cast<__int128>(L::min())) return L::min();
  if (w > static_cast<__int128>(L::max())) return L::max();
  return static_cast<D>(v);
}

template <class T>
double as_double(T v) {
  if constexpr (kIsHalf<T>)
    return to_double(v);
  else
    return static_cast<double>(v);
}

template <class D>
D from_double(double v, Rounding r, i64 flags) {
  if (flags & kSat) v = v > 0 ? (v < 1 ? v : 1.0) : 0.0;
  if (flags & kRelu && !(v > 0)) v = v != v ? v : 0.0;
  if constexpr (std::is_same_v<D, double>)
    return v;
  else if constexpr (std::is_same_v<D, float>) {
    float f = to_single(v, r);
    if (flags & kFtz) f = flush(f);
    return f != f ? bits_as<float>(0x7fffffffu) : f;
  } else if constexpr (std::is_same_v<D, Half>) {
    return to_half(v, r);
  } else {
    return to_bf16(v, r);
  }
}

template <class D, class S>
void convert(Exec& x, const Ins& i, u32 m) {
  Slot<D>* d = x.row<Slot<D>>(i.row[0]);
  const Slot<S>* s = x.row<const Slot<S>>(i.row[1]);
  const Rounding r = static_cast<Rounding>(i.imm[0]);
  const i64 flags = i.imm[1];
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    S v = get<S>(s[l]);
    if constexpr (std::is_same_v<S, float>) {
      if (flags & kFtz) v = flush(v);
    }
    if constexpr (kIsFloat<S> && kIsFloat<D>) {
      double w = as_double(v);
      if (flags & kToInteger) w = std::copysign(whole(w, r), w);
      d[l] = put<D>(from_double<D>(w, flags & kToInteger ? kNearest : r, flags));
    } else if constexpr (kIsFloat<S>) {
      constexpr bool kNanIsZero = !std::is_same_v<S, double> && sizeof(D) != 8;
      d[l] = put<D>(to_integer<D>(as_double(v), r, kNanIsZero));
    } else if constexpr (kIsFloat<D>) {
      D f = from_integer<D, S>(v, r);
      if (flags & kSat) f = from_double<D>(as_double(f), kNearest, kSat);
      d[l] = put<D>(f);
    } else {
      d[l] = put<D>(flags & kSat ? clamp_integer<D, S>(v) : static_cast<D>(v));
    }
  }
}

/// An f32 as f16 in the nearest rounding, without doubles.
u32 nearest_half(float v) {
  const u32 bits = bits_as<u32>(v), sign = bits >> 16 & 0x8000;
  u32 a = bits & 0x7fffffff;
  if (a > 0x7f800000) return 0x7fff;
  if (a >= 0x477ff000) return sign | 0x7c00;
  if (a < 0x38800000) {  // subnormal: the adder rounds at the place where f16 ends
    const float shifted = bits_as<float>(a) + 0.5f;
    return sign | (bits_as<u32>(shifted) - 0x3f000000);
  }
  a += 0xfff + (a >> 13 & 1);
  return sign | (a - 0x38000000) >> 13;
}

u32 nearest_bf16(float v) {
  const u32 bits = bits_as<u32>(v);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

template <class H>
u32 quick_bits(float v, Rounding r) {
  if constexpr (std::is_same_v<H, Half>) {
    return r == kNearest ? nearest_half(v) : to_half(v, r).bits;
  } else {
    return r == kNearest ? nearest_bf16(v) : to_bf16(v, r).bits;
  }
}

template <class H>
u32 finite(u32 bits) {
  const u32 infinity = std::is_same_v<H, Half> ? 0x7c00 : 0x7f80;
  return (bits & 0x7fff) == infinity ? bits - 1 : bits;
}

/// What nvcc's code converts most, without doubles.
struct Exactly {
  static float apply(Half v) { return to_float(v); }
  static float apply(Bf16 v) { return to_float(v); }
};
template <class R>
struct As {
  template <class T>
  static R apply(T v) {
    return static_cast<R>(v);
  }
};

template <class D>
Handler from_type(Type s) {
  switch (s) {
    case kU8:
    case kB8:
      return convert<D, u8>;
    case kS8:
      return convert<D, i8>;
    case kU16:
    case kB16:
      return convert<D, u16>;
    case kS16:
      return convert<D, i16>;
    case kU32:
    case kB32:
      return convert<D, u32>;
    case kS32:
      return convert<D, i32>;
    case kU64:
    case kB64:
      return convert<D, u64>;
    case kS64:
      return convert<D, i64>;
    case kF16:
      return convert<D, Half>;
    case kBf16:
      return convert<D, Bf16>;
    case kF32:
      return convert<D, float>;
    case kF64:
      return convert<D, double>;
    default:
      return nullptr;
  }
}

template <class H>
struct Nearest {
  static H apply(float v) { return {static_cast<u16>(quick_bits<H>(v, kNearest))}; }
};

Handler quick(Type d, Type s) {
  if (d == kF16 && s == kF32) return unary<Half, float, Nearest<Half>>;
  if (d == kBf16 && s == kF32) return unary<Bf16, float, Nearest<Bf16>>;
  if (d == kF32 && s == kF16) return unary<float, Half, Exactly>;
  if (d == kF32 && s == kBf16) return unary<float, Bf16, Exactly>;
  if (d == kF32 && s == kS32) return unary<float, i32, As<float>>;
  if (d == kF32 && s == kU32) return unary<float, u32, As<float>>;
  if (d == kU64 && s == kU32) return unary<u64, u32, As<u64>>;
  if (d == kS64 && s == kS32) return unary<i64, i32, As<i64>>;
  if (d == kU32 && s == kU64) return unary<u32, u64, As<u32>>;
  if (d == kU16 && s == kU32) return unary<u16, u32, As<u16>>;
  if (d == kU32 && s == kU16) return unary<u32, u16, As<u32>>;
  return nullptr;
}

Handler of_types(Type d, Type s) {
  switch (d) {
    case kU8:
    case kB8:
      return from_type<u8>(s);
    case kS8:
      return from_type<i8>(s);
    case kU16:
    case kB16:
      return from_type<u16>(s);
    case kS16:
      return from_type<i16>(s);
    case kU32:
    case kB32:
      return from_type<u32>(s);
    case kS32:
      return from_type<i32>(s);
    case kU64:
    case kB64:
      return from_type<u64>(s);
    case kS64:
      return from_type<i64>(s);
    case kF16:
      return from_type<Half>(s);
    case kBf16:
      return from_type<Bf16>(s);
    case kF32:
      return from_type<float>(s);
    case kF64:
      return from_type<double>(s);
    default:
      return nullptr;
  }
}

/// Two floats into the halves of a word: the second operand is the low one.
template <class H>
void pack_pair(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const float *high = x.row<float>(i.row[1]), *low = x.row<float>(i.row[2]);
  const Rounding r = static_cast<Rounding>(i.imm[0]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const auto one = [&](float v) -> u32 {
      if (i.imm[1] & kRelu && !(v > 0)) v = v != v ? v : 0;
      u32 bits = quick_bits<H>(v, r);
      if (i.imm[1] & kFinite && v == v) bits = finite<H>(bits);
      return bits;
    };
    d[l] = one(low[l]) | one(high[l]) << 16;
  }
}

/// The 11-bit-mantissa floats of tensor cores, in the upper bits of an f32.
void to_tf32(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32* a = x.row<u32>(i.row[1]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    u32 v = a[l];
    if (i.imm[1] & kRelu && v >> 31) v = 0;
    if ((v & 0x7fffffff) > 0x7f800000) {
      d[l] = 0x7fffffff;
      continue;
    }
    if ((v & 0x7f800000) != 0x7f800000) {
      v += i.imm[0] == kNearest ? 0xfff + (v >> 13 & 1) : i.imm[0] == kAway ? 0x1000 : 0;
    }
    d[l] = v & ~0x1fffu;
  }
}

/// cvt.pack.sat.s8.s32.b32 d, a, b, c: d = c << 16 | a << 8 | b, and .u16/.s16 forms.
template <class T>
void pack_integers(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const i32 *a = x.row<i32>(i.row[1]), *b = x.row<i32>(i.row[2]);
  const u32* c = i.operands > 3 ? x.row<u32>(i.row[3]) : nullptr;
  constexpr int kBits = 8 * sizeof(T);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    using U = std::make_unsigned_t<T>;
    const u32 high = static_cast<U>(clamp_integer<T, i32>(a[l]));
    const u32 low = static_cast<U>(clamp_integer<T, i32>(b[l]));
    d[l] = high << kBits | low | (c && kBits == 8 ? c[l] << 16 : 0);
  }
}

void decode_pack(Decoder& d) {
  const Type t = d.types().empty() ? kNoType : d.types()[0];
  Handler h = nullptr;
  if (t == kU8) h = pack_integers<u8>;
  if (t == kS8) h = pack_integers<i8>;
  if (t == kU16) h = pack_integers<u16>;
  if (t == kS16) h = pack_integers<i16>;
  if (!h) d.unsupported();
  emit_same(d, h, kB32, d.count());
}

i64 flags_of(Decoder& d) {
  const bool whole = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  return (d.has("sat") ? kSat : 0) | (d.has("ftz") ? kFtz : 0) | (whole ? kToInteger : 0) |
         (d.has("relu") ? kRelu : 0) | (d.has("satfinite") ? kFinite : 0);
}

void decode_cvt(Decoder& d) {
  if (d.has("pack")) return decode_pack(d);
  const std::vector<Type> t = d.types();
  if (t.size() != 2) d.unsupported();
  const Type to = t[0], from = t[1];
  const i64 flags = flags_of(d);
  if (to == kF16x2 || to == kBf16x2) {
    if (from != kF32) d.unsupported();
    Ins& i = d.emit(to == kF16x2 ? pack_pair<Half> : pack_pair<Bf16>,
                    {out(d.def(d.at(0), to)), in(d.use(d.at(1), from)), in(d.use(d.at(2), from))});
    i.imm[0] = d.rounding();
    i.imm[1] = flags;
    return;
  }
  if (to == kTf32) {
    Ins& i = d.emit(to_tf32, {out(d.def(d.at(0), kB32)), in(d.use(d.at(1), kF32))});
    i.imm[0] = d.rounding();
    i.imm[1] = flags;
    return;
  }
  Handler h = flags == 0 && d.rounding() == kNearest ? quick(to, from) : nullptr;
  if (!h) h = of_types(to, from);
  if (!h) d.unsupported("of these types");
  // Narrow types may stand in wider registers.
  const Width source = d.width(d.at(1), from);
  int value = d.use(d.at(1), from, source);
  if (source == kLong && width_of(from) != kLong) {
    const int low = d.temporary(kWord);
    d.emit(unary<u32, u64, As<u32>>, {out(low), in(value)});
    value = low;
  }
  const Width result = d.width(d.at(0), to);
  const int plain = result == width_of(to) ? d.def(d.at(0), result) : d.temporary(width_of(to));
  Ins& i = d.emit(h, {out(plain), in(value)});
  i.imm[0] = d.rounding();
  i.imm[1] = flags;
  if (result != width_of(to)) {
    if (result != kLong) d.unsupported("the register is too narrow");
    d.emit(is_signed(to) ? unary<u64, i32, As<u64>> : unary<u64, u32, As<u64>>,
           {out(d.def(d.at(0), kLong)), in(plain)});
  }
}

}  // namespace convert_ops

void add_convert_ops(OpTable& t) {
  using namespace convert_ops;
  t["cvt"] = decode_cvt;
}

}  // namespace sim
