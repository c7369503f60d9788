// Among the lanes of a warp: shfl vote match redux activemask elect.
#include <algorithm>

#include "ops.h"

namespace sim {
namespace warp_ops {

enum Direction { kUp, kDown, kXor, kIndex };

/// Lanes that a mask names must be here; a lane that runs without being named is a mistake too.
void check_members(Exec& x, const Ins& i, u32 m, u32 members, const char* name) {
  const u32 alive = x.warp->all & ~x.warp->exited;
  const u32 absent = members & alive & ~m;
  if (absent) {
    x.block->report("divergent-collective", x, i, __builtin_ctz(absent), 0,
                    std::string(name) + " waits for lanes that do not come with it");
  } else if (m & ~members) {
    x.block->report("divergent-collective", x, i, __builtin_ctz(m & ~members), 0,
                    std::string(name) + " runs in a lane that its mask does not name");
  }
}

u32 first_of(Exec& x, i32 row, u32 m) { return x.row<u32>(row)[__builtin_ctz(m)]; }

/// rows: d, p, a, b, c, [members]. imm: direction, has p.
void shfl(Exec& x, const Ins& i, u32 m) {
  const u32 *a = x.row<u32>(i.row[2]), *b = x.row<u32>(i.row[3]), *c = x.row<u32>(i.row[4]);
  if (i.operands > 5) check_members(x, i, m, first_of(x, i.row[5], m), "shfl.sync");
  u32 t[kLanes], in_range = 0;
  for (int l = 0; l < kLanes; l++) {
    const int clamp = c[l] & 31, segment = c[l] >> 8 & 31, step = b[l] & 31;
    const int most = (l & segment) | (clamp & ~segment), least = l & segment;
    int from = l;
    bool ok = false;
    switch (i.imm[0]) {
      case kUp:
        from = l - step, ok = from >= most;
        break;
      case kDown:
        from = l + step, ok = from <= most;
        break;
      case kXor:
        from = l ^ step, ok = from <= most;
        break;
      case kIndex:
        from = least | (step & ~segment), ok = from <= most;
        break;
    }
    if (!ok) from = l;
    t[l] = a[from];
    in_range |= static_cast<u32>(ok) << l;
    if (m >> l & 1 && !(m >> from & 1)) {
      x.block->report("shfl-inactive", x, i, l, 0,
                      "reads lane " + std::to_string(from) + ", which does not take part");
    }
  }
  u32* d = x.row<u32>(i.row[0]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? t[l] : d[l];
  if (i.imm[1]) set_bits(x, i.row[1], in_range, m);
}

void decode_shfl(Decoder& d) {
  static const char* const kNames[] = {"up", "down", "bfly", "idx"};
  int direction = 0;
  while (direction < 4 && !d.has(kNames[direction])) direction++;
  if (direction == 4 || d.type() != kB32) d.unsupported();
  const Operand& to = d.at(0);
  const bool two = to.kind == Operand::kPair;
  std::vector<Arg> args{out(d.def(two ? to.items[0] : to, kB32)),
                        two ? out(d.def(to.items[1], kPred)) : in(d.constant(0, kBit))};
  for (size_t k = 1; k < d.count(); k++) args.push_back(in(d.use(d.at(k), kB32)));
  if (args.size() != (d.has("sync") ? 6u : 5u)) d.unsupported("the number of operands");
  Ins& i = d.emit(shfl, args);
  i.imm[0] = direction;
  i.imm[1] = two;
}

enum Vote { kBallot, kAll, kAny, kUniform };

/// rows: d, a, [members]. imm: which.
void vote(Exec& x, const Ins& i, u32 m) {
  u32 members = m;
  if (i.operands > 2) {
    members = first_of(x, i.row[2], m);
    check_members(x, i, m, members, "vote.sync");
  }
  const u32 yes = *x.row<u32>(i.row[1]) & m;
  if (i.imm[0] == kBallot) {
    u32* d = x.row<u32>(i.row[0]);
    for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? yes : d[l];
    return;
  }
  const bool r = i.imm[0] == kAll ? yes == m : i.imm[0] == kAny ? yes != 0 : yes == m || yes == 0;
  set_bits(x, i.row[0], r ? kAllLanes : 0, m);
}

void decode_vote(Decoder& d) {
  const int which = d.has("ballot") ? kBallot
                    : d.has("all")  ? kAll
                    : d.has("any")  ? kAny
                    : d.has("uni")  ? kUniform
                                    : -1;
  if (which < 0) d.unsupported();
  std::vector<Arg> args{out(d.def(d.at(0), which == kBallot ? kB32 : kPred)),
                        in(d.use(d.at(1), kPred))};
  if (d.has("sync")) args.push_back(in(d.use(d.at(2), kB32)));
  d.emit(vote, args).imm[0] = which;
}

void activemask(Exec& x, const Ins& i, u32 m) {
  u32* d = x.row<u32>(i.row[0]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? m : d[l];
}

/// rows: d, p, a, members. imm: all (else any), has p.
template <class T>
void match(Exec& x, const Ins& i, u32 m) {
  check_members(x, i, m, first_of(x, i.row[3], m), "match.sync");
  const T* a = x.row<T>(i.row[2]);
  u32 t[kLanes] = {};
  for (int l = 0; l < kLanes; l++) {
    for (int k = 0; k < kLanes; k++) t[l] |= static_cast<u32>(m >> k & 1 && a[k] == a[l]) << k;
  }
  const bool same = t[__builtin_ctz(m)] == m;
  u32* d = x.row<u32>(i.row[0]);
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) d[l] = i.imm[0] ? (same ? m : 0) : t[l];
  }
  if (i.imm[1]) set_bits(x, i.row[1], same ? kAllLanes : 0, m);
}

void decode_match(Decoder& d) {
  const Type t = d.type();
  const Operand& to = d.at(0);
  const bool two = to.kind == Operand::kPair;
  Ins& i = d.emit(width_of(t) == kLong ? match<u64> : match<u32>,
                  {out(d.def(two ? to.items[0] : to, kB32)),
                   two ? out(d.def(to.items[1], kPred)) : in(d.constant(0, kBit)),
                   in(d.use(d.at(1), t)), in(d.use(d.at(2), kB32))});
  i.imm[0] = d.has("all");
  i.imm[1] = two;
}

enum Reduction { kAdd, kMin, kMax, kAnd, kOr, kExclusive };

template <class T>
void redux(Exec& x, const Ins& i, u32 m) {
  check_members(x, i, m, first_of(x, i.row[2], m), "redux.sync");
  const T* a = x.row<T>(i.row[1]);
  T r = a[__builtin_ctz(m)];
  for (u32 rest = m & (m - 1); rest; rest &= rest - 1) {
    const T v = a[__builtin_ctz(rest)];
    switch (i.imm[0]) {
      case kAdd:
        r = static_cast<T>(static_cast<u32>(r) + static_cast<u32>(v));
        break;
      case kMin:
        r = std::min(r, v);
        break;
      case kMax:
        r = std::max(r, v);
        break;
      case kAnd:
        r &= v;
        break;
      case kOr:
        r |= v;
        break;
      default:
        r ^= v;
    }
  }
  T* d = x.row<T>(i.row[0]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? r : d[l];
}

void decode_redux(Decoder& d) {
  static const char* const kNames[] = {"add", "min", "max", "and", "or", "xor"};
  int which = 0;
  while (which < 6 && !d.has(kNames[which])) which++;
  const Type t = d.type();
  if (which == 6 || t == kF32) d.unsupported();
  d.emit(t == kS32 ? redux<i32> : redux<u32>,
         {out(d.def(d.at(0), t)), in(d.use(d.at(1), t)), in(d.use(d.at(2), kB32))})
      .imm[0] = which;
}

void elect(Exec& x, const Ins& i, u32 m) {
  const u32 first = __builtin_ctz(m);
  u32* d = x.row<u32>(i.row[0]);
  for (int l = 0; l < kLanes; l++) d[l] = m >> l & 1 ? first : d[l];
  set_bits(x, i.row[1], 1u << first, m);
}

void decode_elect(Decoder& d) {
  const Operand& to = d.at(0);
  if (to.kind != Operand::kPair) d.unsupported();
  d.emit(elect, {out(d.def(to.items[0], kB32)), out(d.def(to.items[1], kPred))});
}

}  // namespace warp_ops

void add_warp_ops(OpTable& t) {
  using namespace warp_ops;
  t["shfl"] = decode_shfl;
  t["vote"] = decode_vote;
  t["activemask"] = [](Decoder& d) { d.emit(activemask, {out(d.def(d.at(0), kB32))}); };
  t["match"] = decode_match;
  t["redux"] = decode_redux;
  t["elect"] = decode_elect;
}

}  // namespace sim
