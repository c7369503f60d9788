// setp and set: comparisons of all types, joined with another predicate.
#include "ops.h"

namespace sim {
namespace compare_ops {

enum Relation { kEq, kNe, kLt, kLe, kGt, kGe, kNum, kNan, kRelations };
const char* const kNames[] = {"eq", "ne", "lt", "le", "gt", "ge", "num", "nan"};
const char* const kUnordered[] = {"equ", "neu", "ltu", "leu", "gtu", "geu"};
const char* const kLower[] = {"", "", "lo", "ls", "hi", "hs"};

enum Join : u8 { kNone, kAnd, kOr, kXor };

template <class T>
struct Value {  // what a comparison looks at
  using Of = T;
  static T of(Slot<T> s) { return get<T>(s); }
};
template <>
struct Value<Half> {
  using Of = float;
  static float of(u32 s) { return to_float(get<Half>(s)); }
};
template <>
struct Value<Bf16> {
  using Of = float;
  static float of(u32 s) { return to_float(get<Bf16>(s)); }
};

template <class T>
inline T flush(T v) {
  if constexpr (std::is_same_v<T, float>) {
    if (v < 0x1p-126f && v > -0x1p-126f) return 0;
  }
  return v;
}

template <class T, Relation R, bool Ftz>
u32 mask_of(const Slot<T>* a, const Slot<T>* b) {
  u8 t[kLanes];
  for (int l = 0; l < kLanes; l++) {
    auto x = Value<T>::of(a[l]), y = Value<T>::of(b[l]);
    if (Ftz) x = flush(x), y = flush(y);
    t[l] = R == kEq    ? x == y
           : R == kNe  ? x < y || x > y
           : R == kLt  ? x < y
           : R == kLe  ? x <= y
           : R == kGt  ? x > y
           : R == kGe  ? x >= y
           : R == kNum ? x == x && y == y
                       : x != x || y != y;
  }
  u32 r = 0;
  for (int l = 0; l < kLanes; l++) r |= static_cast<u32>(t[l]) << l;
  return r;
}

/// imm: 0 join, 1 flip the result (an unordered comparison is the inverse of an ordered one).
template <class T, Relation R, bool Ftz>
void setp(Exec& x, const Ins& i, u32 m) {
  using S = Slot<T>;
  u32 p = mask_of<T, R, Ftz>(x.row<const S>(i.row[2]), x.row<const S>(i.row[3]));
  if (i.imm[1]) p = ~p;
  u32 q = ~p;
  if (i.imm[0] != kNone) {
    const u32 c = *x.row<u32>(i.row[4]);
    if (i.imm[0] == kAnd)
      p &= c, q &= c;
    else if (i.imm[0] == kOr)
      p |= c, q |= c;
    else
      p ^= c, q ^= c;
  }
  set_bits(x, i.row[0], p, m);
  if (i.imm[2]) set_bits(x, i.row[1], q, m);
}

template <class T, bool Ftz>
Handler of_relation(Relation r) {
  switch (r) {
    case kEq:
      return setp<T, kEq, Ftz>;
    case kNe:
      return setp<T, kNe, Ftz>;
    case kLt:
      return setp<T, kLt, Ftz>;
    case kLe:
      return setp<T, kLe, Ftz>;
    case kGt:
      return setp<T, kGt, Ftz>;
    case kGe:
      return setp<T, kGe, Ftz>;
    case kNum:
      return setp<T, kNum, Ftz>;
    default:
      return setp<T, kNan, Ftz>;
  }
}

Handler of_type(Type t, Relation r, bool ftz) {
  switch (t) {
    case kU16:
    case kB16:
      return of_relation<u16, false>(r);
    case kS16:
      return of_relation<i16, false>(r);
    case kU32:
    case kB32:
      return of_relation<u32, false>(r);
    case kS32:
      return of_relation<i32, false>(r);
    case kU64:
    case kB64:
      return of_relation<u64, false>(r);
    case kS64:
      return of_relation<i64, false>(r);
    case kF32:
      return ftz ? of_relation<float, true>(r) : of_relation<float, false>(r);
    case kF64:
      return of_relation<double, false>(r);
    case kF16:
      return of_relation<Half, false>(r);
    case kBf16:
      return of_relation<Bf16, false>(r);
    default:
      return nullptr;
  }
}

void high_half(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32* a = x.row<u32>(i.row[1]);
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) d[l] = a[l] >> 16;
  }
}

void numbered_pair(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32 low = *x.row<u32>(i.row[1]), high = *x.row<u32>(i.row[2]);
  const u32 one = static_cast<u32>(i.imm[0]);
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) d[l] = (low >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0);
  }
}

struct Wanted {
  Relation relation;
  bool flip;
};

Wanted wanted(Decoder& d) {
  for (size_t n = 1; n < d.op().size(); n++) {
    const std::string& name = d.op()[n];
    for (int k = 0; k < kRelations; k++) {
      if (name == kNames[k]) return {static_cast<Relation>(k), false};
      if (k < 6 && name == kUnordered[k]) {
        static const Relation kInverse[] = {kNe, kEq, kGe, kGt, kLe, kLt};
        return {kInverse[k], true};
      }
      if (k < 6 && name == kLower[k]) return {static_cast<Relation>(k), false};
    }
  }
  d.unsupported("no comparison");
}

Join join(Decoder& d) {
  return d.has("and") ? kAnd : d.has("or") ? kOr : d.has("xor") ? kXor : kNone;
}

void compare(Decoder& d, Type t, int to, int to_inverse) {
  const Wanted w = wanted(d);
  const Handler h = of_type(t, w.relation, d.has("ftz"));
  if (!h) d.unsupported("of this type");
  std::vector<Arg> args{out(to), to_inverse >= 0 ? out(to_inverse) : in(d.constant(0, kBit)),
                        in(d.use(d.at(1), t)), in(d.use(d.at(2), t))};
  const Join j = join(d);
  if (j != kNone) args.push_back(in(d.use(d.at(3), kPred)));
  Ins& i = d.emit(h, args);
  i.imm[0] = j;
  i.imm[1] = w.flip;
  i.imm[2] = to_inverse >= 0;
}

void decode_setp(Decoder& d) {
  const Type t = d.type();
  if (t == kF16x2 || t == kBf16x2) {
    // Two comparisons, of the low halves and of the high halves.
    if (d.at(0).kind != Operand::kPair) d.unsupported();
    const Type half = t == kF16x2 ? kF16 : kBf16;
    const int to[2] = {d.def(d.at(0).items[0], kPred), d.def(d.at(0).items[1], kPred)};
    const Wanted w = wanted(d);
    const Join j = join(d);
    const int c = j != kNone ? d.use(d.at(3), kPred) : -1;
    const int a = d.use(d.at(1), t), b = d.use(d.at(2), t);
    for (int k = 0; k < 2; k++) {
      int x = a, y = b;
      if (k == 1) {
        x = d.temporary(kWord), y = d.temporary(kWord);
        d.emit(high_half, {out(x), in(a)});
        d.emit(high_half, {out(y), in(b)});
      }
      std::vector<Arg> args{out(to[k]), in(d.constant(0, kBit)), in(x), in(y)};
      if (j != kNone) args.push_back(in(c));
      Ins& i = d.emit(of_type(half, w.relation, false), args);
      i.imm[0] = j;
      i.imm[1] = w.flip;
    }
    return;
  }
  const bool two = d.at(0).kind == Operand::kPair;
  const int first = d.def(two ? d.at(0).items[0] : d.at(0), kPred);
  compare(d, t, first, two ? d.def(d.at(0).items[1], kPred) : -1);
}

/// A predicate as a number: 1.0 or all ones.
void numbered(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  const u32 p = *x.row<u32>(i.row[1]);
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) d[l] = p >> l & 1 ? static_cast<u32>(i.imm[0]) : 0;
  }
}

void decode_set(Decoder& d) {
  const std::vector<Type> t = d.types();
  if (t.size() != 2) d.unsupported();
  static const std::map<Type, u32> kOnes = {{kF32, 0x3f800000u}, {kU32, ~0u},     {kS32, ~0u},
                                            {kF16, 0x3c00u},     {kU16, 0xffffu}, {kS16, 0xffffu},
                                            {kBf16, 0x3f80u}};
  const bool pair = t[1] == kF16x2 || t[1] == kBf16x2;
  if (pair) {
    // set.eq.f16x2.f16x2: each half by itself.
    const Type half = t[1] == kF16x2 ? kF16 : kBf16;
    const bool number = t[0] == t[1];
    const u32 one = number ? kOnes.at(half) : 0xffffu;
    const Wanted w = wanted(d);
    if (join(d) != kNone) d.unsupported();
    const int a = d.use(d.at(1), t[1]), b = d.use(d.at(2), t[1]);
    const int x = d.temporary(kWord), y = d.temporary(kWord);
    const int low = d.temporary(kBit), high = d.temporary(kBit);
    d.emit(of_type(half, w.relation, false), {out(low), in(d.constant(0, kBit)), in(a), in(b)})
        .imm[1] = w.flip;
    d.emit(high_half, {out(x), in(a)});
    d.emit(high_half, {out(y), in(b)});
    d.emit(of_type(half, w.relation, false), {out(high), in(d.constant(0, kBit)), in(x), in(y)})
        .imm[1] = w.flip;
    d.emit(numbered_pair, {out(d.def(d.at(0), t[0])), in(low), in(high)}).imm[0] = one;
    return;
  }
  if (!kOnes.count(t[0])) d.unsupported();
  const int p = d.temporary(kBit);
  compare(d, t[1], p, -1);
  d.emit(numbered, {out(d.def(d.at(0), t[0])), in(p)}).imm[0] = kOnes.at(t[0]);
}

}  // namespace compare_ops

void add_compare_ops(OpTable& t) {
  using namespace compare_ops;
  t["setp"] = decode_setp;
  t["set"] = decode_set;
}

}  // namespace sim
