// Tensor cores: ldmatrix, stmatrix and mma.sync, with the layouts of PTX's fragments.
//
// In a fragment of 32-bit registers, lane l holds of each 8 x 8 part row l / 4 and, of that row,
// the elements that share a word at column l % 4.
#include <algorithm>

#include "ops.h"

namespace sim {
namespace matrix_ops {

bool all_lanes(Exec& x, const Ins& i, u32 m) {
  if (m == kAllLanes) return true;
  x.block->report(
      "divergent-collective", x, i, __builtin_ctz(~m), 0,
      "an instruction of all 32 lanes runs with " + std::to_string(__builtin_popcount(m)));
  return false;
}

void row_addresses(Exec& x, const Ins& i, i32 row, int count, u64* to) {
  for (int l = 0; l < count; l++) {
    const u64 raw = i.imm[2] & 1 ? x.row<u64>(row)[l] : x.row<u32>(row)[l];
    to[l] = static_cast<u32>(raw + i.imm[0]);
  }
}

using Matrix = u16[8][8];

/// rows: results, address. imm: offset; transposed; wide base.
void ldmatrix(Exec& x, const Ins& i, u32 m) {
  if (!all_lanes(x, i, m)) return;
  Block& b = *x.block;
  const int n = i.operands - 1;
  u64 address[kLanes];
  row_addresses(x, i, i.row[n], 8 * n, address);
  const u32 lanes = n == 4 ? kAllLanes : (1u << (8 * n)) - 1;
  b.count_shared(i, address, lanes, 16);
  Matrix part[4] = {};
  for (int l = 0; l < 8 * n; l++) {
    const u8* p = b.shared(x, i, l, static_cast<u32>(address[l]), 16, false);
    if (!p) continue;
    b.track(x, i, l, static_cast<u32>(address[l]) - kSharedBase, 16, false);
    memcpy(part[l / 8][l % 8], p, 16);
  }
  for (int k = 0; k < n; k++) {
    u32* d = x.row<u32>(i.row[k]);
    if (i.imm[1]) {
      for (int l = 0; l < kLanes; l++) {
        const int r = l >> 2, c = (l & 3) * 2;
        d[l] = part[k][c][r] | static_cast<u32>(part[k][c + 1][r]) << 16;
      }
    } else {
      memcpy(d, part[k], sizeof(Matrix));
    }
  }
}

void stmatrix(Exec& x, const Ins& i, u32 m) {  // rows: values, address
  if (!all_lanes(x, i, m)) return;
  Block& b = *x.block;
  const int n = i.operands - 1;
  u64 address[kLanes];
  row_addresses(x, i, i.row[n], 8 * n, address);
  const u32 lanes = n == 4 ? kAllLanes : (1u << (8 * n)) - 1;
  b.count_shared(i, address, lanes, 16);
  b.progress();
  Matrix part[4];
  for (int k = 0; k < n; k++) {
    const u32* v = x.row<u32>(i.row[k]);
    for (int l = 0; l < kLanes; l++) {
      const int r = l >> 2, c = (l & 3) * 2;
      if (i.imm[1]) {
        part[k][c][r] = static_cast<u16>(v[l]);
        part[k][c + 1][r] = static_cast<u16>(v[l] >> 16);
      } else {
        part[k][r][c] = static_cast<u16>(v[l]);
        part[k][r][c + 1] = static_cast<u16>(v[l] >> 16);
      }
    }
  }
  for (int l = 0; l < 8 * n; l++) {
    u8* p = b.shared(x, i, l, static_cast<u32>(address[l]), 16, true);
    if (!p) continue;
    b.track(x, i, l, static_cast<u32>(address[l]) - kSharedBase, 16, true);
    memcpy(p, part[l / 8][l % 8], 16);
  }
}

void decode_matrix(Decoder& d) {
  const bool stores = d.op()[0] == "stmatrix";
  const Operand& memory = d.at(stores ? 0 : 1);
  const Operand& value = d.at(stores ? 1 : 0);
  if (!d.has("m8n8") || d.type() != kB16) d.unsupported();
  const std::vector<Operand> parts =
      value.kind == Operand::kVector ? value.items : std::vector<Operand>{value};
  std::vector<Arg> args;
  for (const Operand& p : parts) {
    args.push_back(stores ? in(d.use(p, kB32)) : out(d.def(p, kB32)));
  }
  const Decoder::Address a = d.address(memory, kShared);
  args.push_back(in(a.base));
  Ins& i = d.emit(stores ? stmatrix : ldmatrix, args);
  i.imm[0] = a.offset;
  i.imm[1] = d.has("trans");
  i.imm[2] = a.wide;
}

// ---- mma.sync

/// How an element type sits in the words of a fragment of A or B, and what it computes in.
template <class T>
struct Element {
  using Sum = float;
  static constexpr int kPer = 4 / sizeof(T);
};
struct Tf32 {
  u32 bits;
};
template <>
struct Element<Tf32> {
  using Sum = float;
  static constexpr int kPer = 1;
};
template <>
struct Element<i8> {
  using Sum = i32;
  static constexpr int kPer = 4;
};
template <>
struct Element<u8> {
  using Sum = i32;
  static constexpr int kPer = 4;
};

template <class T>
auto element(u32 word, int k) {
  if constexpr (std::is_same_v<T, Tf32>)
    return bits_as<float>(word & ~0x1fffu);
  else if constexpr (sizeof(T) == 1)
    return static_cast<i32>(static_cast<T>(word >> (8 * k)));
  else
    return to_float(T{static_cast<u16>(word >> (16 * k))});
}

/// The rows of one operand: part p of the fragment covers 8 rows and `span` values of k.
/// A's parts go down first (rows 0-7, 8-15), then along k; B's only along k.
template <class T, class Sum, int K>
void gather(Exec& x, const i32* rows, int parts, bool two_down, Sum (*to)[K]) {
  constexpr int kPer = Element<T>::kPer, kSpan = 4 * kPer;
  for (int p = 0; p < parts; p++) {
    const u32* v = x.row<u32>(rows[p]);
    const int down = two_down ? 8 * (p & 1) : 0;
    const int along = kSpan * (two_down ? p >> 1 : p);
    if constexpr (sizeof(T) == 2) {
      for (int r = 0; r < 8; r++)
        to_floats(reinterpret_cast<const T*>(v) + 8 * r, to[down + r] + along);
      continue;
    }
    for (int l = 0; l < kLanes; l++) {
      for (int k = 0; k < kPer; k++) {
        to[down + (l >> 2)][along + (l & 3) * kPer + k] = element<T>(v[l], k);
      }
    }
  }
}

/// Products of the floats here are exact, so that fusing the sum changes nothing but the time.
inline float add_product(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
inline i32 add_product(i32 a, i32 b, i32 c) { return a * b + c; }

/// D (16 x 8) = A (16 x K) B (K x 8) + C. rows: 4 d (2 if f16), A, B, C.
/// imm: 0: the sum is f16; 1: clamp integers.
template <class A, class B, int K>
void mma(Exec& x, const Ins& i, u32 m) {
  if (!all_lanes(x, i, m)) return;
  using Sum = typename Element<A>::Sum;
  constexpr int kSpan = 4 * Element<A>::kPer;
  constexpr int kParts = K / kSpan;
  const bool halves = i.imm[0] & 1;
  const int words = halves ? 2 : 4;
  alignas(64) Sum a[16][K], bt[8][K], b[K][8], d[16][8];
  gather<A, Sum, K>(x, i.row + words, 2 * kParts, true, a);
  gather<B, Sum, K>(x, i.row + words + 2 * kParts, kParts, false, bt);
  for (int n = 0; n < 8; n++) {
    for (int k = 0; k < K; k++) b[k][n] = bt[n][k];
  }
  for (int r = 0; r < 16; r += 4) {
    Sum s[4][8] = {};
    for (int k = 0; k < K; k++) {
      for (int q = 0; q < 4; q++) {
        for (int n = 0; n < 8; n++) s[q][n] = add_product(a[r + q][k], b[k][n], s[q][n]);
      }
    }
    memcpy(d[r], s, sizeof s);
  }
  const i32* c_rows = i.row + words + 3 * kParts;
  if (halves) {
    if constexpr (std::is_same_v<Sum, float>) {
      for (int p = 0; p < 2; p++) {
        u32* out = x.row<u32>(i.row[p]);
        const u32* c = x.row<u32>(c_rows[p]);
        for (int l = 0; l < kLanes; l++) {
          const float* v = &d[8 * p + (l >> 2)][(l & 3) * 2];
          const float low = v[0] + to_float(Half{static_cast<u16>(c[l])});
          const float high = v[1] + to_float(Half{static_cast<u16>(c[l] >> 16)});
          out[l] = to_half(low).bits | static_cast<u32>(to_half(high).bits) << 16;
        }
      }
    }
    return;
  }
  for (int p = 0; p < 4; p++) {
    Sum* out = x.row<Sum>(i.row[p]);
    const Sum* c = x.row<Sum>(c_rows[p]);
    // Lane l holds columns 2 (l % 4) and the next of row l / 4: every other value of 8 rows.
    const Sum* v = &d[8 * (p >> 1)][p & 1];
    for (int l = 0; l < kLanes; l++) {
      if constexpr (std::is_same_v<Sum, i32>) {
        const i64 sum = i64{v[2 * l]} + c[l];
        out[l] = i.imm[0] & 2 ? static_cast<i32>(std::clamp<i64>(sum, INT32_MIN, INT32_MAX))
                              : static_cast<i32>(sum);
      } else {
        out[l] = v[2 * l] + c[l];
      }
    }
  }
}

/// m8n8k16 of 8-bit integers: one row of parts. rows: 2 d, a, b, 2 c.
template <class A, class B>
void mma_small(Exec& x, const Ins& i, u32 m) {
  if (!all_lanes(x, i, m)) return;
  i32 a[8][16], b[8][16], d[8][8];
  gather<A, i32, 16>(x, i.row + 2, 1, false, a);
  gather<B, i32, 16>(x, i.row + 3, 1, false, b);
  for (int r = 0; r < 8; r++) {
    for (int n = 0; n < 8; n++) {
      d[r][n] = 0;
      for (int k = 0; k < 16; k++) d[r][n] += a[r][k] * b[n][k];
    }
  }
  for (int p = 0; p < 2; p++) {
    i32* out = x.row<i32>(i.row[p]);
    const i32* c = x.row<i32>(i.row[4 + p]);
    for (int l = 0; l < kLanes; l++) {
      const i64 sum = i64{d[l >> 2][(l & 3) * 2 + p]} + c[l];
      out[l] = i.imm[0] & 2 ? static_cast<i32>(std::clamp<i64>(sum, INT32_MIN, INT32_MAX))
                            : static_cast<i32>(sum);
    }
  }
}

/// m8n8k4 of f64. rows: 2 d, a, b, 2 c.
void mma_f64(Exec& x, const Ins& i, u32 m) {
  if (!all_lanes(x, i, m)) return;
  const double *a = x.row<double>(i.row[2]), *b = x.row<double>(i.row[3]);
  double t[2][kLanes];
  for (int p = 0; p < 2; p++) {
    const double* c = x.row<double>(i.row[4 + p]);
    for (int l = 0; l < kLanes; l++) {
      double sum = c[l];
      const int n = (l & 3) * 2 + p;
      for (int k = 0; k < 4; k++) sum = __builtin_fma(a[(l & ~3) + k], b[4 * n + k], sum);
      t[p][l] = sum;
    }
  }
  for (int p = 0; p < 2; p++) memcpy(x.row<double>(i.row[p]), t[p], sizeof t[p]);
}

struct Shape {
  int m, n, k;
};

Shape shape_of(Decoder& d) {
  for (const std::string& part : d.op()) {
    Shape s;
    if (sscanf(part.c_str(), "m%dn%dk%d", &s.m, &s.n, &s.k) == 3) return s;
  }
  d.unsupported();
}

template <class A>
Handler with_b(Type b, int k) {
  if (b == kU8) return k == 16 ? mma<A, u8, 16> : mma<A, u8, 32>;
  return k == 16 ? mma<A, i8, 16> : mma<A, i8, 32>;
}

Handler handler_of(Type a, Type b, Shape s) {
  if (s.m == 8 && s.k == 16 && bytes_of(a) == 1 && bytes_of(b) == 1) {
    return a == kU8 ? (b == kU8 ? mma_small<u8, u8> : mma_small<u8, i8>)
                    : (b == kU8 ? mma_small<i8, u8> : mma_small<i8, i8>);
  }
  if (s.m == 8 && s.k == 4 && a == kF64) return mma_f64;
  if (s.m != 16 || s.n != 8) return nullptr;
  if (a == kF16 && b == kF16)
    return s.k == 16 ? mma<Half, Half, 16> : s.k == 8 ? mma<Half, Half, 8> : nullptr;
  if (a == kBf16 && b == kBf16)
    return s.k == 16 ? mma<Bf16, Bf16, 16> : s.k == 8 ? mma<Bf16, Bf16, 8> : nullptr;
  if (a == kTf32 && b == kTf32)
    return s.k == 8 ? mma<Tf32, Tf32, 8> : s.k == 4 ? mma<Tf32, Tf32, 4> : nullptr;
  if (bytes_of(a) == 1 && bytes_of(b) == 1 && (s.k == 16 || s.k == 32)) {
    return a == kU8 ? with_b<u8>(b, s.k) : with_b<i8>(b, s.k);
  }
  return nullptr;
}

void decode_mma(Decoder& d) {
  const std::vector<Type> t = d.types();
  if (t.size() < 4 || d.count() != 4 || d.has("sp")) d.unsupported();
  const Shape s = shape_of(d);
  const Type a = t[t.size() - 3], b = t[t.size() - 2], c = t.back(), result = t[t.size() - 4];
  const Handler h = handler_of(a, b, s);
  const bool sums =
      c == result && (c == kF32 || c == kS32 || c == kF64 || (c == kF16 && a == kF16));
  if (!h || !sums) d.unsupported();
  const Type word = a == kF64 ? kF64 : kB32, sum = c == kF64 ? kF64 : kB32;
  std::vector<Arg> args;
  const auto each = [&](size_t k, Type type, bool defined) {
    const Operand& o = d.at(k);
    const std::vector<Operand> items =
        o.kind == Operand::kVector ? o.items : std::vector<Operand>{o};
    for (const Operand& p : items)
      args.push_back(defined ? out(d.def(p, type)) : in(d.use(p, type)));
  };
  each(0, sum, true);
  each(1, word, false);
  each(2, word, false);
  each(3, sum, false);
  const size_t per = s.m == 8 ? 1 : static_cast<size_t>(s.k) * (a == kTf32 ? 4 : bytes_of(a)) / 16;
  const size_t results = s.m == 8 || c == kF16 ? 2 : 4;
  if (args.size() != 2 * results + (s.m == 8 ? 2 : 3 * per))
    d.unsupported("the number of registers");
  Ins& i = d.emit(h, args);
  i.imm[0] = (c == kF16 ? 1 : 0) | (d.has("satfinite") ? 2 : 0);
  i.tensor_flops = 2u * s.m * s.n * s.k;
}

}  // namespace matrix_ops

void add_matrix_ops(OpTable& t) {
  using namespace matrix_ops;
  t["ldmatrix"] = t["stmatrix"] = decode_matrix;
  t["mma"] = decode_mma;
}

}  // namespace sim
