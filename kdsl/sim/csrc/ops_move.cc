// mov in all its forms, selections, and addresses between spaces.
#include "ops.h"

namespace sim {
namespace move_ops {

struct Same {
  template <class T>
  static T apply(T a) {
    return a;
  }
};

struct Same64 {
  static u64 apply(u32 a) { return a; }
};

void move_bits(Exec& x, const Ins& i, u32 m) { set_bits(x, i.row[0], *x.row<u32>(i.row[1]), m); }

/// {a, b, ...} into one register; imm: bits of a part.
template <class To>
void pack(Exec& x, const Ins& i, u32 m) {
  To* d = x.row<To>(i.row[0]);
  To t[kLanes] = {};
  for (int k = 1; k < i.operands; k++) {
    const u32* part = x.row<u32>(i.row[k]);
    const int shift = static_cast<int>(i.imm[0]) * (k - 1);
    const u32 mask = i.imm[0] >= 32 ? ~0u : (1u << i.imm[0]) - 1;
    for (int l = 0; l < kLanes; l++) t[l] |= static_cast<To>(part[l] & mask) << shift;
  }
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? t[l] : d[l];
}

template <class From>
void unpack(Exec& x, const Ins& i, u32 m) {
  const int parts = i.operands - 1;
  const From* a = x.row<From>(i.row[parts]);
  From t[kLanes];
  memcpy(t, a, sizeof t);
  const u32 mask = i.imm[0] >= 32 ? ~0u : (1u << i.imm[0]) - 1;
  for (int k = 0; k < parts; k++) {
    u32* d = x.row<u32>(i.row[k]);
    for (int l = 0; l < kLanes; l++) {
      if (m >> l & 1) d[l] = static_cast<u32>(t[l] >> (i.imm[0] * k)) & mask;
    }
  }
}

void clock_now(Exec& x, const Ins& i, u32 m) {
  u64 total = x.block->idle;
  for (const Stat& s : *x.block->stats) total += s.executed;
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    if (i.imm[0])
      x.row<u64>(i.row[0])[l] = total;
    else
      x.row<u32>(i.row[0])[l] = static_cast<u32>(total);
  }
}

void decode_mov(Decoder& d) {
  const Type t = d.type();
  if (t == kNoType || t == kB128) d.unsupported();
  const Operand &to = d.at(0), &from = d.at(1);
  if (from.kind == Operand::kVector || to.kind == Operand::kVector) {
    const bool packs = from.kind == Operand::kVector;
    const std::vector<Operand>& parts = packs ? from.items : to.items;
    const int bits = 8 * bytes_of(t) / static_cast<int>(parts.size());
    if (bits > 32 || width_of(t) == kBit) d.unsupported();
    std::vector<Arg> args;
    for (const Operand& p : parts) {
      args.push_back(packs ? in(d.use(p, kB32)) : out(d.def(p, kB32)));
    }
    const bool wide = width_of(t) == kLong;
    if (packs)
      args.insert(args.begin(), out(d.def(to, t)));
    else
      args.push_back(in(d.use(from, t)));
    d.emit(packs ? (wide ? pack<u64> : pack<u32>) : (wide ? unpack<u64> : unpack<u32>), args)
        .imm[0] = bits;
    return;
  }
  if (from.name.rfind("%clock", 0) == 0 || from.name.rfind("%globaltimer", 0) == 0) {
    const bool wide = width_of(t) == kLong;
    d.emit(clock_now, {out(d.def(to, t))}).imm[0] = wide;
    return;
  }
  if (from.name == "%gridid" && width_of(t) == kLong) {
    d.emit(unary<u64, u32, Same64>, {out(d.def(to, t)), in(d.special(kGrid))});
    return;
  }
  const Handler h = t == kPred             ? move_bits
                    : width_of(t) == kLong ? unary<u64, u64, Same>
                    : bytes_of(t) == 2     ? unary<u16, u16, Same>
                                           : unary<u32, u32, Same>;
  emit_same(d, h, t, 2);
}

template <class T>
void select(Exec& x, const Ins& i, u32 m) {
  T* d = x.row<T>(i.row[0]);
  const T *a = x.row<T>(i.row[1]), *b = x.row<T>(i.row[2]);
  const u32 p = *x.row<u32>(i.row[3]);
  for (int l = 0; l < kLanes; l++) {
    const T v = p >> l & 1 ? a[l] : b[l];
    d[l] = m >> l & 1 ? v : d[l];
  }
}

void select_bits(Exec& x, const Ins& i, u32 m) {
  const u32 p = *x.row<u32>(i.row[3]);
  set_bits(x, i.row[0], (*x.row<u32>(i.row[1]) & p) | (*x.row<u32>(i.row[2]) & ~p), m);
}

void decode_selp(Decoder& d) {
  const Type t = d.type();
  const Handler h = t == kPred ? select_bits : width_of(t) == kLong ? select<u64> : select<u32>;
  d.emit(h, {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), t)),
             in(d.use(d.at(3), kPred))});
}

struct ChooseS {
  template <class T>
  static T apply(T a, T b, i32 c) {
    return c >= 0 ? a : b;
  }
};
struct ChooseF {
  template <class T>
  static T apply(T a, T b, float c) {
    return c >= 0 ? a : b;
  }
};

void decode_slct(Decoder& d) {
  const std::vector<Type> t = d.types();
  if (t.size() != 2) d.unsupported();
  const bool wide = width_of(t[0]) == kLong;
  const Handler h =
      t[1] == kF32
          ? (wide ? ternary<u64, u64, u64, float, ChooseF> : ternary<u32, u32, u32, float, ChooseF>)
          : (wide ? ternary<u64, u64, u64, i32, ChooseS> : ternary<u32, u32, u32, i32, ChooseS>);
  d.emit(h, {out(d.def(d.at(0), t[0])), in(d.use(d.at(1), t[0])), in(d.use(d.at(2), t[0])),
             in(d.use(d.at(3), t[1]))});
}

template <class T>
void offset(Exec& x, const Ins& i, u32 m) {
  T* d = x.row<T>(i.row[0]);
  const T* a = x.row<T>(i.row[1]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? a[l] + static_cast<T>(i.imm[0]) : d[l];
}

u64 window_of(Space s) {
  return s == kShared ? kSharedWindow : s == kLocal ? kLocalWindow : s == kParam ? kParamWindow : 0;
}

void decode_cvta(Decoder& d) {
  const Type t = d.type();
  const Operand& from = d.at(1);
  u64 window = window_of(d.space());
  Symbol symbol;
  // A callee's parameter lies in memory of the thread.
  if (from.kind == Operand::kName && d.find_symbol(from.name, symbol)) {
    window = window_of(symbol.space);
  }
  if (width_of(t) != kLong) d.unsupported("addresses are of 64 bits");
  d.emit(offset<u64>, {out(d.def(d.at(0), t)), in(d.use(from, t))}).imm[0] =
      static_cast<i64>(d.has("to") ? 0 - window : window);
}

void isspacep(Exec& x, const Ins& i, u32 m) {
  const u64* a = x.row<u64>(i.row[1]);
  u32 r = 0;
  for (int l = 0; l < kLanes; l++) {
    r |= static_cast<u32>((a[l] >> 60) == static_cast<u64>(i.imm[0])) << l;
  }
  set_bits(x, i.row[0], r, m);
}

void decode_isspacep(Decoder& d) {
  d.emit(isspacep, {out(d.def(d.at(0), kPred)), in(d.use(d.at(1), kU64))}).imm[0] =
      static_cast<i64>(window_of(d.space()) >> 60);
}

}  // namespace move_ops

void add_move_ops(OpTable& t) {
  using namespace move_ops;
  t["mov"] = decode_mov;
  t["selp"] = decode_selp;
  t["slct"] = decode_slct;
  t["cvta"] = decode_cvta;
  t["isspacep"] = decode_isspacep;
}

}  // namespace sim
