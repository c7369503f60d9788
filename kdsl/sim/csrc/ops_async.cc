// cp.async: the bytes arrive when the warp waits for them, no sooner; see also order.cc.
#include <algorithm>

#include "ops.h"

namespace sim {
namespace async_ops {

constexpr u32 kOpen = ~0u;  // in no group yet

/// rows: to, from, [bytes to read | predicate]. imm: bytes, offsets of both; see decode.
void copy(Exec& x, const Ins& i, u32 m) {
  Block& block = *x.block;
  const int bytes = static_cast<int>(i.imm[0] & 255);
  const int third = static_cast<int>(i.imm[0] >> 8 & 3);  // 1: size, 2: ignore-src predicate
  const bool wide_to = i.imm[0] >> 10 & 1;
  Copy c;
  c.pc = block.pc_of(i);
  c.lanes = 0;
  c.bytes = bytes;
  u64 to[kLanes];
  u32 reading = 0;
  for (int l = 0; l < kLanes; l++) {
    const u64 raw = wide_to ? x.row<u64>(i.row[0])[l] : x.row<u32>(i.row[0])[l];
    to[l] = static_cast<u32>(raw + i.imm[1]);
    c.from[l] = x.row<u64>(i.row[1])[l] + i.imm[2];
    c.to[l] = static_cast<u32>(to[l]);
    c.group[l] = kOpen;
    u32 length = bytes;
    if (third == 1) length = std::min<u32>(bytes, x.row<u32>(i.row[2])[l]);
    if (third == 2 && *x.row<u32>(i.row[2]) >> l & 1) length = 0;
    c.length[l] = static_cast<u8>(length);
    if (m >> l & 1 && length) reading |= 1u << l;
  }
  if (reading) block.count_global(i, c.from.data(), reading, bytes);
  Stat& s = (*block.stats)[c.pc];
  const u64 moved = s.bytes;
  block.count_shared(i, to, m, bytes);
  s.bytes = moved;
  block.progress();
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    if (c.length[l] && !block.global(x, i, l, c.from[l], c.length[l], false, bytes)) {
      c.length[l] = 0;
    }
    if (!block.shared(x, i, l, c.to[l], bytes, true)) continue;
    block.track_copy(x, i, l, c.to[l] - kSharedBase, bytes);
    c.lanes |= 1u << l;
  }
  if (c.lanes) x.warp->copies.push_back(c);
}

void commit(Exec& x, const Ins&, u32 m) {
  Warp& w = *x.warp;
  for (Copy& c : w.copies) {
    for (int l = 0; l < kLanes; l++) {
      if ((m & c.lanes) >> l & 1 && c.group[l] == kOpen) c.group[l] = w.commits[l];
    }
  }
  for (int l = 0; l < kLanes; l++) w.commits[l] += m >> l & 1;
}

/// imm: how many of the latest groups may stay under way; -1: none, nor what is in no group.
void wait(Exec& x, const Ins& i, u32 m) {
  Warp& w = *x.warp;
  for (Copy& c : w.copies) {
    for (int l = 0; l < kLanes; l++) {
      if (!((m & c.lanes) >> l & 1)) continue;
      const bool done = i.imm[0] < 0 || (c.group[l] != kOpen &&
                                         c.group[l] + static_cast<u64>(i.imm[0]) < w.commits[l]);
      if (!done) continue;
      x.block->land(w, c, l);
      c.lanes &= ~(1u << l);
    }
  }
  const auto gone = [](const Copy& c) { return c.lanes == 0; };
  w.copies.erase(std::remove_if(w.copies.begin(), w.copies.end(), gone), w.copies.end());
}

void decode_cp(Decoder& d) {
  if (!d.has("async") || d.has("bulk") || d.has("mbarrier")) d.unsupported();
  if (d.has("commit_group")) {
    d.emit(commit, {});
    return;
  }
  if (d.has("wait_group") || d.has("wait_all")) {
    d.emit(wait, {}).imm[0] = d.has("wait_all") ? -1 : static_cast<i64>(d.at(0).bits);
    return;
  }
  const Decoder::Address to = d.address(d.at(0), kShared), from = d.address(d.at(1), kGlobal);
  if (!from.wide) d.unsupported("the source's address is of 32 bits");
  const i64 bytes = static_cast<i64>(d.at(2).bits);
  if (bytes != 4 && bytes != 8 && bytes != 16) d.unsupported("it copies 4, 8 or 16 bytes");
  std::vector<Arg> args{in(to.base), in(from.base)};
  // [to], [from], 16{, size | predicate}{, policy}
  i64 third = 0;
  const bool hint = d.has("L2::cache_hint");
  if (d.count() > 3u + hint) {
    const Operand& o = d.at(3);
    third = o.kind == Operand::kName && d.width(o, kU32) == kBit ? 2 : 1;
    args.push_back(in(d.use(o, third == 2 ? kPred : kU32)));
  }
  Ins& i = d.emit(copy, args);
  i.imm[0] = bytes | third << 8 | to.wide << 10;
  i.imm[1] = to.offset;
  i.imm[2] = from.offset;
}

}  // namespace async_ops

void add_async_ops(OpTable& t) {
  using namespace async_ops;
  t["cp"] = decode_cp;
}

}  // namespace sim
