// Bits: and or xor not lop3, shifts, fields, permutations, counts.
#include "ops.h"

namespace sim {
namespace bit_ops {

struct And {
  template <class T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T apply(T a) {
    return a == 0;
  }
};
struct Shl {
  template <class T>
  static T apply(T a, u32 n) {
    return n >= 8 * sizeof(T) ? 0 : static_cast<T>(a << n);
  }
};
struct Shr {
  template <class T>
  static T apply(T a, u32 n) {
    constexpr u32 kBits = 8 * sizeof(T);
    if (n >= kBits) return std::is_signed_v<T> ? static_cast<T>(a >> (kBits - 1)) : 0;
    return static_cast<T>(a >> n);
  }
};
struct Popc {
  template <class T>
  static u32 apply(T a) {
    return __builtin_popcountll(a);
  }
};
struct Clz {
  static u32 apply(u32 a) { return a ? __builtin_clz(a) : 32; }
  static u32 apply(u64 a) { return a ? __builtin_clzll(a) : 64; }
};
struct Brev {
  static u64 apply(u64 a) {
    u64 r = 0;
    for (int k = 0; k < 64; k++) r |= (a >> k & 1) << (63 - k);
    return r;
  }
  static u32 apply(u32 a) { return static_cast<u32>(apply(static_cast<u64>(a)) >> 32); }
};
template <bool Amount>
struct Bfind {
  template <class T>
  static u32 apply(T value) {
    using U = std::make_unsigned_t<T>;
    const U a = std::is_signed_v<T> && value < 0 ? static_cast<U>(~value) : static_cast<U>(value);
    if (a == 0) return ~0u;
    const u32 at = 63 - __builtin_clzll(a);
    return Amount ? 8 * sizeof(T) - 1 - at : at;
  }
};
struct Bfe {
  template <class T>
  static T apply(T a, u32 b, u32 c) {
    constexpr u32 kBits = 8 * sizeof(T);
    const u32 pos = b & 255, len = c & 255;
    using U = std::make_unsigned_t<T>;
    if (len == 0) return 0;
    const u32 top = std::min(pos + len - 1, kBits - 1);
    const bool sign = std::is_signed_v<T> && (static_cast<U>(a) >> top & 1);
    const U field = pos >= kBits ? 0 : static_cast<U>(a) >> pos;
    if (len >= kBits && pos == 0) return static_cast<T>(field);
    const U mask = len >= kBits ? ~U{0} : (U{1} << len) - 1;
    // Past the top bit of `a` the sign is repeated.
    U r = field & mask;
    if (sign) {
      const u32 valid = pos >= kBits ? 0 : std::min(len, kBits - pos);
      r |= valid >= kBits ? U{0} : static_cast<U>(~U{0} << valid);
    }
    return static_cast<T>(r);
  }
};
struct Szext {
  template <bool Wrap, class T>
  static T extend(T a, u32 n) {
    if (Wrap) n &= 31;
    if (n >= 32) return a;
    if (n == 0) return 0;
    using U = std::make_unsigned_t<T>;
    const U up = static_cast<U>(a) << (32 - n);
    return static_cast<T>(up) >> (32 - n);
  }
};
template <bool Wrap>
struct SzextOf {
  template <class T>
  static T apply(T a, u32 n) {
    return Szext::extend<Wrap, T>(a, n);
  }
};
template <bool Wrap>
struct Bmsk {
  static u32 apply(u32 a, u32 b) {
    if (Wrap) a &= 31, b &= 31;
    const u64 mask = (b >= 32 ? ~0ull : (1ull << b) - 1);
    return a >= 32 ? 0 : static_cast<u32>(mask << a);
  }
};
template <bool Left, bool Wrap>
struct Shf {
  static u32 apply(u32 a, u32 b, u32 c) {
    const u32 n = Wrap ? c & 31 : std::min(c, 32u);
    const u64 both = static_cast<u64>(b) << 32 | a;
    return Left ? static_cast<u32>(both << n >> 32) : static_cast<u32>(both >> n);
  }
};

template <class T>
void bfi(Exec& x, const Ins& i, u32 m) {
  constexpr u32 kBits = 8 * sizeof(T);
  T* d = x.row<T>(i.row[0]);
  const T *a = x.row<T>(i.row[1]), *b = x.row<T>(i.row[2]);
  const u32 *c = x.row<u32>(i.row[3]), *e = x.row<u32>(i.row[4]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const u32 pos = c[l] & 255, len = e[l] & 255;
    T mask = len >= kBits ? ~T{0} : (T{1} << len) - 1;
    mask = pos >= kBits ? 0 : mask << pos;
    d[l] = (b[l] & ~mask) | (pos >= kBits ? 0 : a[l] << pos & mask);
  }
}

void lop3(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32 *a = x.row<u32>(i.row[1]), *b = x.row<u32>(i.row[2]), *c = x.row<u32>(i.row[3]);
  u32 t[kLanes] = {};
  for (int k = 0; k < 8; k++) {
    if (!(i.imm[0] >> k & 1)) continue;
    const u32 na = k & 4 ? 0 : ~0u, nb = k & 2 ? 0 : ~0u, nc = k & 1 ? 0 : ~0u;
    for (int l = 0; l < kLanes; l++) t[l] |= (a[l] ^ na) & (b[l] ^ nb) & (c[l] ^ nc);
  }
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? t[l] : d[l];
}

void prmt(Exec& x, const Ins& i, u32 m) {  // imm: the mode
  u32* d = x.row<u32>(i.row[0]);
  const u32 *a = x.row<u32>(i.row[1]), *b = x.row<u32>(i.row[2]), *c = x.row<u32>(i.row[3]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const u64 both = static_cast<u64>(b[l]) << 32 | a[l];
    const u32 n = c[l] & 3;
    u32 r = 0;
    for (u32 k = 0; k < 4; k++) {
      u32 pick = 0;
      switch (i.imm[0]) {
        case 0:
          pick = c[l] >> (4 * k) & 15;
          break;
        case 1:
          pick = n + k;
          break;  // f4e
        case 2:
          pick = (n + 8 - k) & 7;
          break;  // b4e
        case 3:
          pick = n;
          break;  // rc8
        case 4:
          pick = std::max(k, n);
          break;  // ecl
        case 5:
          pick = std::min(k, n);
          break;  // ecr
        case 6:
          pick = (n & 1) * 2 + (k & 1);
          break;  // rc16
      }
      u32 v = both >> (8 * (pick & 7)) & 255;
      if (i.imm[0] == 0 && pick & 8) v = v & 128 ? 255 : 0;
      r |= v << (8 * k);
    }
    d[l] = r;
  }
}

void fns(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32 *mask = x.row<u32>(i.row[1]), *base = x.row<u32>(i.row[2]);
  const i32* offset = x.row<i32>(i.row[3]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const int step = offset[l] < 0 ? -1 : 1;
    int left = offset[l] == 0 ? 1 : std::abs(offset[l]);
    u32 found = ~0u;
    for (int k = static_cast<int>(base[l]); k >= 0 && k < 32; k += step) {
      if (mask[l] >> k & 1 && --left == 0) found = k;
      if (found != ~0u || offset[l] == 0) break;
    }
    d[l] = found;
  }
}

template <int Which>
void predicates(Exec& x, const Ins& i, u32 m) {
  const u32 a = *x.row<u32>(i.row[1]);
  const u32 b = Which == 3 ? 0 : *x.row<u32>(i.row[2]);
  set_bits(x, i.row[0], Which == 0 ? a & b : Which == 1 ? a | b : Which == 2 ? a ^ b : ~a, m);
}

template <class F, int Which>
void decode_logic(Decoder& d) {
  const Type t = d.type();
  if (t == kPred) {
    emit_same(d, predicates<Which>, t, 3);
  } else {
    emit_same(d, binary_of<F>(t), t, 3);
  }
}

void decode_not(Decoder& d) {
  const Type t = d.type();
  emit_same(d, t == kPred ? predicates<3> : unary_of<Not>(t), t, 2);
}

template <class F>
void decode_shift(Decoder& d) {
  Handler h = nullptr;
  const Type t = d.type();
  switch (t) {
    case kB16:
    case kU16:
      h = binary<u16, u16, u32, F>;
      break;
    case kS16:
      h = binary<i16, i16, u32, F>;
      break;
    case kB32:
    case kU32:
      h = binary<u32, u32, u32, F>;
      break;
    case kS32:
      h = binary<i32, i32, u32, F>;
      break;
    case kB64:
    case kU64:
      h = binary<u64, u64, u32, F>;
      break;
    case kS64:
      h = binary<i64, i64, u32, F>;
      break;
    default:
      d.unsupported();
  }
  d.emit(h, {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), kU32))});
}

void decode_count(Decoder& d, Handler narrow, Handler wide) {
  const Type t = d.type();
  d.emit(width_of(t) == kLong ? wide : narrow, {out(d.def(d.at(0), kU32)), in(d.use(d.at(1), t))});
}

void decode_bfind(Decoder& d) {
  const Type t = d.type();
  const bool amount = d.has("shiftamt");
  Handler h = nullptr;
  switch (t) {
    case kU32:
      h = amount ? unary<u32, u32, Bfind<true>> : unary<u32, u32, Bfind<false>>;
      break;
    case kS32:
      h = amount ? unary<u32, i32, Bfind<true>> : unary<u32, i32, Bfind<false>>;
      break;
    case kU64:
      h = amount ? unary<u32, u64, Bfind<true>> : unary<u32, u64, Bfind<false>>;
      break;
    case kS64:
      h = amount ? unary<u32, i64, Bfind<true>> : unary<u32, i64, Bfind<false>>;
      break;
    default:
      d.unsupported();
  }
  d.emit(h, {out(d.def(d.at(0), kU32)), in(d.use(d.at(1), t))});
}

void decode_bfe(Decoder& d) {
  const Type t = d.type();
  Handler h = nullptr;
  switch (t) {
    case kU32:
      h = ternary<u32, u32, u32, u32, Bfe>;
      break;
    case kS32:
      h = ternary<i32, i32, u32, u32, Bfe>;
      break;
    case kU64:
      h = ternary<u64, u64, u32, u32, Bfe>;
      break;
    case kS64:
      h = ternary<i64, i64, u32, u32, Bfe>;
      break;
    default:
      d.unsupported();
  }
  d.emit(h, {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), kU32)),
             in(d.use(d.at(3), kU32))});
}

void decode_bfi(Decoder& d) {
  const Type t = d.type();
  d.emit(width_of(t) == kLong ? bfi<u64> : bfi<u32>,
         {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), t)),
          in(d.use(d.at(3), kU32)), in(d.use(d.at(4), kU32))});
}

void decode_lop3(Decoder& d) {
  if (d.count() != 5 || d.at(0).kind == Operand::kPair) d.unsupported();
  d.emit(lop3, {out(d.def(d.at(0), kB32)), in(d.use(d.at(1), kB32)), in(d.use(d.at(2), kB32)),
                in(d.use(d.at(3), kB32))})
      .imm[0] = static_cast<i64>(d.at(4).bits);
}

void decode_prmt(Decoder& d) {
  static const char* const kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  int mode = 0;
  for (int k = 1; k < 7; k++) mode = d.has(kModes[k]) ? k : mode;
  emit_same(d, prmt, kB32, 4).imm[0] = mode;
}

void decode_shf(Decoder& d) {
  const bool left = d.has("l"), wrap = d.has("wrap");
  emit_same(d,
            left ? (wrap ? ternary<u32, u32, u32, u32, Shf<true, true>>
                         : ternary<u32, u32, u32, u32, Shf<true, false>>)
                 : (wrap ? ternary<u32, u32, u32, u32, Shf<false, true>>
                         : ternary<u32, u32, u32, u32, Shf<false, false>>),
            kB32, 4);
}

void decode_szext(Decoder& d) {
  const bool wrap = d.has("wrap");
  const Handler s =
      wrap ? binary<i32, i32, u32, SzextOf<true>> : binary<i32, i32, u32, SzextOf<false>>;
  const Handler u =
      wrap ? binary<u32, u32, u32, SzextOf<true>> : binary<u32, u32, u32, SzextOf<false>>;
  emit_same(d, d.type() == kS32 ? s : u, kB32, 3);
}

}  // namespace bit_ops

void add_bit_ops(OpTable& t) {
  using namespace bit_ops;
  t["and"] = decode_logic<And, 0>;
  t["or"] = decode_logic<Or, 1>;
  t["xor"] = decode_logic<Xor, 2>;
  t["not"] = decode_not;
  t["cnot"] = [](Decoder& d) { emit_same(d, unary_of<Cnot>(d.type()), d.type(), 2); };
  t["shl"] = decode_shift<Shl>;
  t["shr"] = decode_shift<Shr>;
  t["popc"] = [](Decoder& d) { decode_count(d, unary<u32, u32, Popc>, unary<u32, u64, Popc>); };
  t["clz"] = [](Decoder& d) { decode_count(d, unary<u32, u32, Clz>, unary<u32, u64, Clz>); };
  t["brev"] = [](Decoder& d) {
    const bool wide = width_of(d.type()) == kLong;
    emit_same(d, wide ? unary<u64, u64, Brev> : unary<u32, u32, Brev>, d.type(), 2);
  };
  t["bfind"] = decode_bfind;
  t["bfe"] = decode_bfe;
  t["bfi"] = decode_bfi;
  t["lop3"] = decode_lop3;
  t["prmt"] = decode_prmt;
  t["shf"] = decode_shf;
  t["szext"] = decode_szext;
  t["bmsk"] = [](Decoder& d) {
    emit_same(
        d, d.has("wrap") ? binary<u32, u32, u32, Bmsk<true>> : binary<u32, u32, u32, Bmsk<false>>,
        kB32, 3);
  };
  t["fns"] = [](Decoder& d) { emit_same(d, fns, kB32, 4); };
}

}  // namespace sim
