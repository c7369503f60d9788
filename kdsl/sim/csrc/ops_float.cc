// f32 and f64: add sub mul fma div rcp sqrt min max neg abs copysign testp, exact in all roundings.
#include <cfenv>
#include <cmath>

#include "ops.h"

namespace sim {
namespace float_ops {

constexpr float kLeastNormal = 0x1p-126f;

/// Subnormals of f32 become zeros of their sign where an instruction says .ftz.
inline float flush(float v) { return std::fabs(v) < kLeastNormal ? std::copysign(0.f, v) : v; }

/// The NaN that f32 instructions give, whatever they were given.
inline float canonical(float v) { return v != v ? bits_as<float>(0x7fffffffu) : v; }
inline double canonical(double v) { return v; }

template <class T>
inline T saturate(T v) {
  return v > 0 ? (v < 1 ? v : T(1)) : T(0);  // NaN gives 0
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <class T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Rcp {
  template <class T>
  static T apply(T a) {
    return 1 / a;
  }
};
struct Sqrt {
  template <class T>
  static T apply(T a) {
    return std::sqrt(a);
  }
};

/// F with the modifiers that change values; without any, it costs the NaN's normal form alone.
template <class F, bool Ftz, bool Sat>
struct With {
  template <class T>
  static T in(T v) {
    if constexpr (Ftz && sizeof(T) == 4) return flush(v);
    return v;
  }
  template <class T>
  static T out(T v) {
    if constexpr (Sat) return saturate(v);
    return canonical(in(v));
  }
  template <class T>
  static T apply(T a) {
    return out(F::template apply<T>(in(a)));
  }
  template <class T>
  static T apply(T a, T b) {
    return out(F::template apply<T>(in(a), in(b)));
  }
  template <class T>
  static T apply(T a, T b, T c) {
    return out(F::template apply<T>(in(a), in(b), in(c)));
  }
};

/// In another rounding: the loop runs in a function of its own, which the compiler does not mix
/// with the calls around it.
void rounded(Exec& x, const Ins& i, u32 m) {
  static const int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const Handler run = reinterpret_cast<Handler>(i.imm[2]);
  fesetround(kModes[i.imm[1]]);
  run(x, i, m);
  fesetround(FE_TONEAREST);
}

template <class T, template <class> class Shape, class F>
Handler with_modifiers(Decoder& d) {
  const bool ftz = d.has("ftz") && sizeof(T) == 4, sat = d.has("sat");
  if (ftz) return sat ? Shape<With<F, true, true>>::run : Shape<With<F, true, false>>::run;
  return sat ? Shape<With<F, false, true>>::run : Shape<With<F, false, false>>::run;
}

template <class T>
struct Shapes {
  template <class F>
  struct One {
    static void run(Exec& x, const Ins& i, u32 m) { unary<T, T, F>(x, i, m); }
  };
  template <class F>
  struct Two {
    static void run(Exec& x, const Ins& i, u32 m) { binary<T, T, T, F>(x, i, m); }
  };
  template <class F>
  struct Three {
    static void run(Exec& x, const Ins& i, u32 m) { ternary<T, T, T, T, F>(x, i, m); }
  };
};

void emit_float(Decoder& d, Handler h, Type t, size_t operands, u8 flops) {
  const Rounding r = d.rounding();
  Ins& i = emit_same(d, r == kNearest ? h : rounded, t, operands);
  i.flops = flops;
  i.imm[1] = r;
  i.imm[2] = reinterpret_cast<i64>(h);
}

template <class F>
void decode_two(Decoder& d, u8 flops = 1) {
  const Type t = d.type();
  if (t == kF32) {
    emit_float(d, with_modifiers<float, Shapes<float>::Two, F>(d), t, 3, flops);
  } else if (t == kF64) {
    emit_float(d, with_modifiers<double, Shapes<double>::Two, F>(d), t, 3, flops);
  } else if (!decode_half(d)) {
    d.unsupported();
  }
}

template <class F>
void decode_one(Decoder& d) {
  const Type t = d.type();
  if (t == kF32) {
    emit_float(d, with_modifiers<float, Shapes<float>::One, F>(d), t, 2, 1);
  } else if (t == kF64) {
    emit_float(d, with_modifiers<double, Shapes<double>::One, F>(d), t, 2, 1);
  } else {
    d.unsupported();
  }
}

/// min and max: a NaN loses to a number unless .NaN; -0 is less than +0.
template <bool Max, bool Nan, bool Ftz, bool Xor>
struct MinMax {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (Ftz && sizeof(T) == 4) a = flush(a), b = flush(b);
    const bool negative = Xor && std::signbit(a) != std::signbit(b);
    if (Xor) a = std::fabs(a), b = std::fabs(b);
    T r;
    if (a != a || b != b) {
      r = Nan ? (a != a ? a : b) : (a != a ? b : a);
    } else if (a == b) {
      r = std::signbit(a) == Max ? b : a;
    } else {
      r = (a < b) == Max ? b : a;
    }
    return canonical(Xor ? std::copysign(r, negative ? T(-1) : T(1)) : r);
  }
};

template <class T, bool Max>
Handler minmax(Decoder& d) {
  const bool nan = d.has("NaN");
  if (d.has("xorsign")) {
    return nan ? binary<T, T, T, MinMax<Max, true, false, true>>
               : binary<T, T, T, MinMax<Max, false, false, true>>;
  }
  if (d.has("ftz")) {
    return nan ? binary<T, T, T, MinMax<Max, true, true, false>>
               : binary<T, T, T, MinMax<Max, false, true, false>>;
  }
  return nan ? binary<T, T, T, MinMax<Max, true, false, false>>
             : binary<T, T, T, MinMax<Max, false, false, false>>;
}

template <bool Max>
void decode_minmax(Decoder& d) {
  const Type t = d.type();
  if (t == kF32) {
    emit_same(d, minmax<float, Max>(d), t, 3).flops = 1;
  } else if (t == kF64) {
    emit_same(d, minmax<double, Max>(d), t, 3).flops = 1;
  } else if (!decode_half(d)) {
    d.unsupported();
  }
}

struct Neg {
  static u32 apply(u32 a) { return a ^ 0x80000000u; }
  static u64 apply(u64 a) { return a ^ 1ull << 63; }
};
struct Abs {
  static u32 apply(u32 a) { return a & 0x7fffffffu; }
  static u64 apply(u64 a) { return a & ~(1ull << 63); }
};
template <class F>
struct FlushThen {
  static float apply(float a) { return bits_as<float>(F::apply(bits_as<u32>(flush(a)))); }
};
struct Copysign {  // the sign of the first, the rest of the second
  static u32 apply(u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
  static u64 apply(u64 a, u64 b) { return (a & 1ull << 63) | (b & ~(1ull << 63)); }
};

template <class F>
void decode_bits(Decoder& d) {
  const Type t = d.type();
  if (t == kF32) {
    emit_same(d, d.has("ftz") ? unary<float, float, FlushThen<F>> : unary<u32, u32, F>, t, 2);
  } else if (t == kF64) {
    emit_same(d, unary<u64, u64, F>, t, 2);
  } else if (!decode_half(d)) {
    d.unsupported();
  }
}

template <class T>
void testp(Exec& x, const Ins& i, u32 m) {
  const T* a = x.row<T>(i.row[1]);
  u32 r = 0;
  for (int l = 0; l < kLanes; l++) {
    bool v = false;
    switch (i.imm[0]) {
      case 0:
        v = std::isfinite(a[l]);
        break;
      case 1:
        v = std::isinf(a[l]);
        break;
      case 2:
        v = !std::isnan(a[l]);
        break;
      case 3:
        v = std::isnan(a[l]);
        break;
      case 4:
        v = std::isnormal(a[l]);
        break;
      case 5:
        v = std::fpclassify(a[l]) == FP_SUBNORMAL;
        break;
    }
    r |= static_cast<u32>(v) << l;
  }
  set_bits(x, i.row[0], r, m);
}

void decode_testp(Decoder& d) {
  static const char* const kTests[] = {"finite",     "infinite", "number",
                                       "notanumber", "normal",   "subnormal"};
  const Type t = d.type();
  Ins& i = d.emit(t == kF64 ? testp<double> : testp<float>,
                  {out(d.def(d.at(0), kPred)), in(d.use(d.at(1), t))});
  for (int k = 0; k < 6; k++) i.imm[0] = d.has(kTests[k]) ? k : i.imm[0];
}

}  // namespace float_ops

void decode_float_add(Decoder& d) {
  using namespace float_ops;
  decode_two<Add>(d);
}
void decode_float_sub(Decoder& d) {
  using namespace float_ops;
  decode_two<Sub>(d);
}
void decode_float_mul(Decoder& d) {
  using namespace float_ops;
  decode_two<Mul>(d);
}
// div.approx and div.full are computed exactly, within the error they may have.
void decode_float_div(Decoder& d) {
  using namespace float_ops;
  decode_two<Div>(d);
}
void decode_float_min(Decoder& d) {
  using namespace float_ops;
  decode_minmax<false>(d);
}
void decode_float_max(Decoder& d) {
  using namespace float_ops;
  decode_minmax<true>(d);
}
void decode_float_neg(Decoder& d) {
  using namespace float_ops;
  decode_bits<Neg>(d);
}
void decode_float_abs(Decoder& d) {
  using namespace float_ops;
  decode_bits<Abs>(d);
}

void decode_float_fma(Decoder& d) {
  using namespace float_ops;
  const Type t = d.type();
  if (t == kF32) {
    emit_float(d, with_modifiers<float, Shapes<float>::Three, Fma>(d), t, 4, 2);
  } else if (t == kF64) {
    emit_float(d, with_modifiers<double, Shapes<double>::Three, Fma>(d), t, 4, 2);
  } else if (!decode_half(d)) {
    d.unsupported();
  }
}

void add_float_ops(OpTable& t) {
  using namespace float_ops;
  t["fma"] = decode_float_fma;
  t["rcp"] = decode_one<Rcp>;
  t["sqrt"] = decode_one<Sqrt>;
  t["testp"] = decode_testp;
  t["copysign"] = [](Decoder& d) {
    const bool wide = d.type() == kF64;
    emit_same(d, wide ? binary<u64, u64, u64, Copysign> : binary<u32, u32, u32, Copysign>, d.type(),
              3);
  };
}

}  // namespace sim
