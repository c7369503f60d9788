// ld, st and their kin.
#include "ops.h"

namespace sim {
namespace memory_ops {

enum Order : u8 { kWeak, kRelaxed, kAcquire, kRelease };

/// imm of loads and stores: offset; space; bytes of an element, sign, order.
struct Form {
  int bytes;
  bool sign, wide;  // wide: the registers of values are of 8 bytes
  Order order;
  bool wide_base;
};

i64 packed(const Form& f) {
  return f.bytes | f.sign << 8 | f.wide << 9 | static_cast<i64>(f.order) << 10 | f.wide_base << 12;
}
Form unpacked(i64 v) {
  return {static_cast<int>(v & 255), (v >> 8 & 1) != 0, (v >> 9 & 1) != 0,
          static_cast<Order>(v >> 10 & 3), (v >> 12 & 1) != 0};
}

void addresses(Exec& x, const Ins& i, i32 row, bool wide, u64* to) {
  if (wide) {
    const u64* a = x.row<u64>(row);
    for (int l = 0; l < kLanes; l++) to[l] = a[l] + static_cast<u64>(i.imm[0]);
  } else {
    const u32* a = x.row<u32>(row);
    for (int l = 0; l < kLanes; l++) to[l] = a[l] + static_cast<u32>(i.imm[0]);
  }
}

u64 fetched(const u8* p, const Form& f) {
  if (!p) return 0;
  u64 v = 0;
  memcpy(&v, p, f.bytes);
  if (!f.sign) return v;
  switch (f.bytes) {
    case 1:
      return static_cast<u64>(i64{static_cast<i8>(v)});
    case 2:
      return static_cast<u64>(i64{static_cast<i16>(v)});
    case 4:
      return static_cast<u64>(i64{static_cast<i32>(v)});
    default:
      return v;
  }
}

void load(Exec& x, const Ins& i, u32 m) {  // rows: values, base
  const Form f = unpacked(i.imm[2]);
  const int values = i.operands - 1;
  Access a;
  a.lanes = m;
  a.bytes = f.bytes * values;
  a.space = static_cast<Space>(i.imm[1]);
  a.mode = f.order != kWeak ? kFlag : kPlainAccess;
  addresses(x, i, i.row[values], f.wide_base, a.address);
  if (a.mode == kFlag) {
    for (int l = 0; l < kLanes; l++) {
      if (m >> l & 1) x.block->acquire(*x.warp, a.address[l], f.order == kAcquire);
    }
  }
  u8* from[kLanes];
  x.block->resolve(x, i, a, from);
  for (int k = 0; k < values; k++) {
    if (f.wide) {
      u64* d = x.row<u64>(i.row[k]);
      for (int l = 0; l < kLanes; l++) {
        if (m >> l & 1) d[l] = fetched(from[l] ? from[l] + k * f.bytes : nullptr, f);
      }
    } else {
      u32* d = x.row<u32>(i.row[k]);
      for (int l = 0; l < kLanes; l++) {
        if (m >> l & 1)
          d[l] = static_cast<u32>(fetched(from[l] ? from[l] + k * f.bytes : nullptr, f));
      }
    }
  }
}

/// A parameter of the kernel: the same for all lanes, and nothing to check.
void load_param(Exec& x, const Ins& i, u32 m) {
  const Form f = unpacked(i.imm[2]);
  for (int k = 0; k + 1 < i.operands; k++) {
    const u64 v = fetched(x.block->launch.params.data() + i.imm[0] + k * f.bytes, f);
    if (f.wide) {
      u64* d = x.row<u64>(i.row[k]);
      for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? v : d[l];
    } else {
      u32* d = x.row<u32>(i.row[k]);
      for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? static_cast<u32>(v) : d[l];
    }
  }
}

u64 value_of(Exec& x, const Ins& i, int k, int lane, const Form& f) {
  const u64 v = f.wide ? x.row<u64>(i.row[k])[lane] : x.row<u32>(i.row[k])[lane];
  return f.bytes == 8 ? v : v & ((1ull << (8 * f.bytes)) - 1);
}

/// Lanes that write different values to one place: which of them stays is not defined.
void report_clash(Exec& x, const Ins& i, u32 m, u8* const* to, int values, const Form& f) {
  bool rising = true;
  const u8* before = nullptr;
  for (int l = 0; l < kLanes && rising; l++) {
    if (!(m >> l & 1) || !to[l]) continue;
    rising = to[l] > before;
    before = to[l];
  }
  for (int l = 1; l < kLanes && !rising; l++) {
    for (int k = 0; k < l; k++) {
      if (!(m >> l & m >> k & 1) || to[l] != to[k] || !to[l]) continue;
      bool same = true;
      for (int n = 0; n < values; n++) same &= value_of(x, i, n, l, f) == value_of(x, i, n, k, f);
      if (same || x.block->again("race-lanes", i)) continue;
      x.block->report("race-lanes", x, i, l, reinterpret_cast<u64>(to[l]),
                      "lanes " + std::to_string(k) + " and " + std::to_string(l) +
                          " write different values to one place");
    }
  }
}

void store(Exec& x, const Ins& i, u32 m) {  // rows: values, base
  const Form f = unpacked(i.imm[2]);
  const int values = i.operands - 1;
  Access a;
  a.lanes = m;
  a.bytes = f.bytes * values;
  a.space = static_cast<Space>(i.imm[1]);
  a.write = true;
  a.mode = f.order != kWeak ? kFlag : kPlainAccess;
  addresses(x, i, i.row[values], f.wide_base, a.address);
  u8* to[kLanes];
  if (f.order != kWeak) {
    for (int l = 0; l < kLanes; l++) {
      if (m >> l & 1) x.block->publish(*x.warp, a.address[l], f.order == kRelease);
    }
  }
  x.block->resolve(x, i, a, to);
  report_clash(x, i, m, to, values, f);
  for (int k = 0; k < values; k++) {
    const u64* wide = f.wide ? x.row<u64>(i.row[k]) : nullptr;
    const u32* narrow = f.wide ? nullptr : x.row<u32>(i.row[k]);
    for (int l = 0; l < kLanes; l++) {
      if (!(m >> l & 1) || !to[l]) continue;
      const u64 v = wide ? wide[l] : narrow[l];
      memcpy(to[l] + k * f.bytes, &v, f.bytes);
    }
  }
}

Order order_of(Decoder& d) {
  if (d.has("acquire")) return kAcquire;
  if (d.has("release")) return kRelease;
  return d.has("volatile") || d.has("relaxed") || d.has("mmio") ? kRelaxed : kWeak;
}

void decode_access(Decoder& d, bool stores) {
  const Type t = d.type();
  if (t == kNoType || t == kB128 || t == kPred) d.unsupported();
  const Operand& memory = d.at(stores ? 0 : 1);
  const Operand& value = d.at(stores ? 1 : 0);
  const std::vector<Operand> values =
      value.kind == Operand::kVector ? value.items : std::vector<Operand>{value};
  Width width = width_of(t);
  for (const Operand& v : values) {
    if (v.kind == Operand::kName) width = d.width(v, t);
  }
  if (width == kBit) d.unsupported("a predicate");
  std::vector<Arg> args;
  for (const Operand& v : values) {
    args.push_back(stores ? in(d.use(v, t, width)) : out(d.def(v, width)));
  }
  const Decoder::Address a = d.address(memory, d.space());
  Form f{bytes_of(t), is_signed(t), width == kLong, order_of(d), a.wide};
  if (f.order != kWeak) d.partial_barriers();
  if (a.space == kGeneric || a.space == kGlobal) d.touches(f.bytes);
  args.push_back(in(a.base));
  const bool fixed = a.space == kParam && memory.items[0].kind == Operand::kName && !stores &&
                     d.is_symbol(memory.items[0]);
  if (fixed && a.offset + f.bytes * static_cast<i64>(values.size()) > d.param_bytes()) {
    d.unsupported("it reads past the parameters");
  }
  Ins& i = d.emit(fixed ? load_param : stores ? store : load, args);
  i.imm[0] = a.offset;
  i.imm[1] = a.space;
  i.imm[2] = packed(f);
}

void decode_nothing(Decoder&) {}

/// createpolicy: a hint for caches, of which there are none.
void zero(Exec& x, const Ins& i, u32 m) {
  u64* d = x.row<u64>(i.row[0]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? 0 : d[l];
}

}  // namespace memory_ops

void add_memory_ops(OpTable& t) {
  using namespace memory_ops;
  t["ld"] = t["ldu"] = [](Decoder& d) { decode_access(d, false); };
  t["st"] = [](Decoder& d) { decode_access(d, true); };
  t["prefetch"] = t["prefetchu"] = t["discard"] = t["applypriority"] = decode_nothing;
  t["createpolicy"] = [](Decoder& d) { d.emit(zero, {out(d.def(d.at(0), kB64))}); };
}

}  // namespace sim
