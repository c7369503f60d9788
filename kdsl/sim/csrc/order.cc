// What happens before what: races in shared memory, data in flight, flags that order warps.
//
// Each warp has a vector of clocks, joined at barriers. Shared memory has a shadow for every four
// bytes: the last write, the readers since, and whether an asynchronous copy is under way there.
#include <algorithm>

#include "exec.h"

namespace sim {
namespace {

constexpr u8 kFlying = 16, kAtomic = 32;

/// Which of the four bytes of word `k` an access touches.
u8 touched_of(u32 k, u32 offset, u32 end) {
  const u32 begin = std::max(k * 4, offset) - k * 4;
  const u32 stop = std::min(k * 4 + 4, end) - k * 4;
  return static_cast<u8>(((1u << stop) - 1) & ~((1u << begin) - 1));
}

}  // namespace

void Block::track(Exec& x, const Ins& i, int lane, u32 offset, int bytes, bool write, Mode mode) {
  const Warp& w = *x.warp;
  const i32 pc = pc_of(i);
  const u32 self = 1u << w.id;
  const u32 end = offset + bytes;
  const bool quick = !write && mode == kPlainAccess && bytes >= 4 && read_clocks.empty();
  for (u32 k = offset / 4; k < (end + 3) / 4; k++) {
    Shadow& s = shadows[k];
    if (quick && s.written == 15 && (s.writer == w.id || s.write_clock <= w.clock[s.writer])) {
      // What most reads find: all bytes written, and that ordered before.
      s.readers = s.read_epoch == epoch ? s.readers | self : self;
      s.read_epoch = epoch;
      s.read_pc = pc;
      s.bytes |= 0xf0;
      continue;
    }
    const u8 touched = bytes >= 4 ? 15 : touched_of(k, offset, end);
    if (s.written & kFlying) {
      report(write ? "write-inflight" : "read-inflight", x, i, lane, offset,
             "the bytes are the target of a cp.async that nobody has waited for", s.write_pc);
    }
    const bool reads = !write || mode == kAtomicAccess;
    const bool atomic = mode != kPlainAccess;
    if (reads && (s.written & touched) != touched && !(s.written & kFlying)) {
      report("uninit-shared", x, i, lane, offset,
             "read at byte " + std::to_string(offset) + " of shared memory, which nothing wrote");
    }
    if (s.writer != w.id && s.write_clock > w.clock[s.writer] && (s.bytes & touched) &&
        !(atomic && s.written & kAtomic) && !(s.written & kFlying)) {
      report(write && !reads ? "race-write-write" : "race-read-after-write", x, i, lane, offset,
             "no barrier between this and a write of warp " + std::to_string(s.writer), s.write_pc);
    }
    if (write) {
      u32 others = s.read_epoch == epoch ? s.readers & ~self : 0;
      if (others && !(s.bytes >> 4 & touched)) others = 0;
      for (; others; others &= others - 1) {
        const int other = __builtin_ctz(others);
        if (!read_clocks.empty() && read_clocks[k * warps.size() + other] <= w.clock[other])
          continue;
        report("race-write-after-read", x, i, lane, offset,
               "no barrier between this and a read of warp " + std::to_string(other), s.read_pc);
        break;
      }
      const bool same = s.writer == w.id && s.write_clock == w.clock[w.id];
      s.bytes = same ? (s.bytes & 15) | touched : touched;
      s.write_clock = w.clock[w.id];
      s.write_pc = pc;
      s.writer = static_cast<u8>(w.id);
      s.written = (s.written & 15) | touched | (atomic ? kAtomic : 0);
      s.readers = 0;
      continue;
    }
    if (s.read_epoch != epoch) {
      s.read_epoch = epoch;
      s.readers = 0;
      s.bytes &= 15;
    }
    if (atomic) continue;
    s.readers |= self;
    s.read_pc = pc;
    s.bytes |= touched << 4;
    if (!read_clocks.empty()) read_clocks[k * warps.size() + w.id] = w.clock[w.id];
  }
}

void Block::track_copy(Exec& x, const Ins& i, int lane, u32 offset, int bytes) {
  track(x, i, lane, offset, bytes, true);
  for (u32 k = offset / 4; k < (offset + bytes) / 4; k++) shadows[k].written |= kFlying;
}

void Block::land(Warp& w, const Copy& copy, int lane) {
  const u32 offset = copy.to[lane] - kSharedBase;
  u8* to = memory.data() + offset;
  memset(to + copy.length[lane], 0, copy.bytes - copy.length[lane]);
  if (copy.length[lane])
    memcpy(to, reinterpret_cast<const u8*>(copy.from[lane]), copy.length[lane]);
  for (u32 k = offset / 4; k < (offset + copy.bytes) / 4; k++) {
    Shadow& s = shadows[k];
    // A later copy to the same place has been reported; it lands by itself.
    if (s.write_pc != copy.pc || s.writer != w.id) continue;
    s.written = 15;
    s.bytes = 15;
    s.write_clock = w.clock[w.id];
  }
}

void Block::acquire(Warp& w, u64 address, bool at_once) {
  const auto it = released_.find(address);
  if (it == released_.end()) return;
  Clock& to = at_once ? w.clock : w.acquired;
  for (int k = 0; k < kMaxWarps; k++) to[k] = std::max(to[k], it->second[k]);
}

void Block::publish(Warp& w, u64 address, bool at_once) {
  const Clock& from = at_once ? w.clock : w.fence;
  Clock& to = released_[address];
  for (int k = 0; k < kMaxWarps; k++) to[k] = std::max(to[k], from[k]);
  if (at_once) w.clock[w.id]++;
}

void Block::fence(Warp& w) {
  w.fence = w.clock;
  for (int k = 0; k < kMaxWarps; k++) {
    if (k != w.id) w.clock[k] = std::max(w.clock[k], w.acquired[k]);
  }
  w.clock[w.id]++;
}

}  // namespace sim
