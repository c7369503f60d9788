// What happens before what: races in shared memory, data in flight, flags that order warps.
//
// Each warp has a vector of clocks, joined at barriers. Shared memory has a shadow for every four
// bytes: the last write, the readers since, and whether an asynchronous copy is under way there.
#include <algorithm>

#include "exec.h"

namespace sim {
namespace {

constexpr u8 kFlying = 16;
constexpr u64 kMany = 0xffffffffull << 32;  // readers

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
    if (quick && s.written == 15 && s.atomic_clock == 0 &&
        (s.writer == w.id || s.write_clock <= w.clock[s.writer])) {
      // What most reads find: all bytes written, and that ordered before.
      s.readers = s.read_epoch == epoch ? s.readers | self : self;
      s.read_epoch = epoch;
      s.read_pc = pc;
      s.bytes |= 0xf0;
      continue;
    }
    const u8 touched = bytes >= 4 ? 15 : touched_of(k, offset, end);
    const bool flying = s.written & kFlying;
    if (flying) {
      const char* kind = write ? "write-inflight" : "read-inflight";
      if (!again(kind, i, s.write_pc)) {
        report(kind, x, i, lane, offset,
               "the bytes are the target of a cp.async that nobody has waited for", s.write_pc);
      }
    } else {
      const bool reads = !write || mode == kAtomicAccess;
      if (reads && (s.written & touched) != touched && !again("uninit-shared", i)) {
        report("uninit-shared", x, i, lane, offset,
               "read at byte " + std::to_string(offset) + " of shared memory, which nothing wrote");
      }
      const bool unordered =
          s.writer != w.id && s.write_clock > w.clock[s.writer] && (s.bytes & touched);
      const bool atomics = mode == kPlainAccess && s.atomic_writer != w.id &&
                           s.atomic_clock > w.clock[s.atomic_writer];
      if (unordered || atomics) {
        const int other = unordered ? s.writer : s.atomic_writer;
        const i32 other_pc = unordered ? s.write_pc : s.atomic_pc;
        const char* kind = reads ? "race-read-after-write" : "race-write-write";
        if (!again(kind, i, other_pc)) {
          report(kind, x, i, lane, offset,
                 "no barrier between this and a write of warp " + std::to_string(other), other_pc);
        }
      }
    }
    if (write) {
      u32 others = s.read_epoch == epoch ? s.readers & ~self : 0;
      if (others && !(s.bytes >> 4 & touched)) others = 0;
      for (; others; others &= others - 1) {
        const int other = __builtin_ctz(others);
        if (!read_clocks.empty() && read_clocks[k * warps.size() + other] <= w.clock[other]) {
          continue;
        }
        if (!again("race-write-after-read", i, s.read_pc)) {
          report("race-write-after-read", x, i, lane, offset,
                 "no barrier between this and a read of warp " + std::to_string(other), s.read_pc);
        }
        break;
      }
      s.written = (s.written & 15) | touched;
      s.readers = 0;
      if (mode != kPlainAccess) {
        s.atomic_clock = w.clock[w.id];
        s.atomic_writer = static_cast<u8>(w.id);
        s.atomic_pc = pc;
        continue;
      }
      const bool same = s.writer == w.id && s.write_clock == w.clock[w.id];
      s.bytes = same ? (s.bytes & 15) | touched : touched;
      s.write_clock = w.clock[w.id];
      s.write_pc = pc;
      s.writer = static_cast<u8>(w.id);
      continue;
    }
    if (mode != kPlainAccess) continue;
    if (s.read_epoch != epoch) {
      s.read_epoch = epoch;
      s.readers = 0;
      s.bytes &= 15;
    }
    s.readers |= self;
    s.read_pc = pc;
    s.bytes |= touched << 4;
    if (!read_clocks.empty()) read_clocks[k * warps.size() + w.id] = w.clock[w.id];
  }
}

void Block::track_global(Exec& x, const Ins& i, int lane, u64 address, int bytes, bool write) {
  if (launch.ordered.load(std::memory_order_relaxed)) return;
  const u64 offset = address - last->base, step = program.least_bytes;
  const u64 self = (number + 1) << 32;
  const u64 mine = self | static_cast<u32>(pc_of(i));
  constexpr auto kRelaxed = std::memory_order_relaxed;
  for (u64 k = offset / step; k <= (offset + bytes - 1) / step; k++) {
    Owners& o = last->owners[k];
    const u64 writer = o.writer.load(kRelaxed), reader = o.reader.load(kRelaxed);
    u64 other = writer && (writer & kMany) != self ? writer : 0;
    const char* kind = write ? "race-write-write" : "race-read-after-write";
    if (!other && write && reader && (reader & kMany) != self) {
      other = reader;
      kind = "race-write-after-read";
    }
    const i32 pc = static_cast<i32>(other);
    if (other && !again(kind, i, pc)) {
      const bool many = (other & kMany) == kMany;
      const std::string who =
          many ? "other blocks" : "block number " + std::to_string((other >> 32) - 1);
      report(kind, x, i, lane, address,
             who + (other == writer ? " writes" : " reads") + " byte " + std::to_string(k * step) +
                 " of " + last->name + " too, and nothing orders blocks",
             pc);
      (*findings)[{kind, pc_of(i), pc}].of_blocks = true;
    }
    if (write) {
      o.writer.store(mine, kRelaxed);
    } else if (!reader) {
      o.reader.store(mine, kRelaxed);
    } else if ((reader & kMany) != self) {
      o.reader.store(kMany | static_cast<u32>(reader), kRelaxed);
    }
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
