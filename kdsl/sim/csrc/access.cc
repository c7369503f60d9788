// Every access to memory: which memory, is it inside, is it aligned, what does it cost.
#include <algorithm>

#include "exec.h"

namespace sim {
namespace {

Space space_of(u64 generic) {
  switch (generic >> 60) {
    case 0:
      return kGlobal;
    case kSharedWindow >> 60:
      return kShared;
    case kLocalWindow >> 60:
      return kLocal;
    case kParamWindow >> 60:
      return kParam;
    default:
      return kGlobal;  // no allocation is there, and the report says so
  }
}

std::string verb(bool write) { return write ? "write" : "read"; }

std::string sized(bool write, int bytes) {
  return verb(write) + " of " + std::to_string(bytes) + " bytes";
}

}  // namespace

u8* Block::global(Exec& x, const Ins& i, int lane, u64 address, int bytes, bool write,
                  int alignment) {
  const u64 n = static_cast<u64>(bytes);
  if (!last || address - last->base >= last->size || last->size - (address - last->base) < n) {
    const Allocation* found = find(*launch.memory, address);
    if (!found || found->size - (address - found->base) < n) {
      if (again("oob-global", i)) return nullptr;
      report("oob-global", x, i, lane, address,
             sized(write, bytes) + ": " + Heap::get().describe(*launch.memory, address, bytes));
      return nullptr;
    }
    last = found;
  }
  const u64 step = alignment ? alignment : bytes;
  if (address % step != 0) {
    if (again("misaligned", i)) return nullptr;
    report("misaligned", x, i, lane, address,
           sized(write, bytes) + " of global memory, " + std::to_string(address % step) +
               " bytes past a multiple of " + std::to_string(step));
    return nullptr;
  }
  if (last->owners) track_global(x, i, lane, address, bytes, write);
  if (last->written) {
    u8* written = last->written + (address - last->base);
    if (write) {
      memset(written, 1, n);
    } else if (memchr(written, 0, n)) {
      report("uninit-global", x, i, lane, address,
             "read of " + last->name + " at byte " + std::to_string(address - last->base) +
                 ", which nothing has written");
      memset(written, 1, n);
    }
  }
  return reinterpret_cast<u8*>(address);
}

u8* Block::shared(Exec& x, const Ins& i, int lane, u32 address, int bytes, bool write) {
  const u64 offset = static_cast<u64>(address) - kSharedBase;
  if (address < kSharedBase || offset + bytes > memory.size()) {
    report("oob-shared", x, i, lane, address,
           sized(write, bytes) + " at byte " + std::to_string(static_cast<i64>(offset)) + " of " +
               std::to_string(memory.size()) + " of shared memory");
    return nullptr;
  }
  if (address % bytes != 0) {
    report("misaligned", x, i, lane, address,
           sized(write, bytes) + " of shared memory, " + std::to_string(address % bytes) +
               " bytes past a multiple of " + std::to_string(bytes));
    return nullptr;
  }
  return memory.data() + offset;
}

void Block::resolve(Exec& x, const Ins& i, const Access& a, u8* pointer[kLanes]) {
  Space space = a.space;
  if (space == kGeneric) {
    space = space_of(a.address[__builtin_ctz(a.lanes)]);
    u32 same = 0;
    for (int l = 0; l < kLanes; l++) {
      if (a.lanes >> l & 1 && space_of(a.address[l]) == space) same |= 1u << l;
    }
    Access part = a;
    part.space = space;
    part.lanes = same;
    for (int l = 0; l < kLanes && space != kGlobal; l++) part.address[l] &= (1ull << 60) - 1;
    resolve(x, i, part, pointer);
    if (same != a.lanes) {
      u8* rest[kLanes];
      part = a;
      part.lanes = a.lanes & ~same;
      resolve(x, i, part, rest);
      for (int l = 0; l < kLanes; l++) {
        if (part.lanes >> l & 1) pointer[l] = rest[l];
      }
    }
    return;
  }
  if (space == kGlobal) {
    if (a.mode != kPlainAccess) launch.ordered.store(true, std::memory_order_relaxed);
    count_global(i, a.address, a.lanes, a.bytes);
  } else if (space == kShared) {
    count_shared(i, a.address, a.lanes, a.bytes);
  }
  if (a.write && a.mode != kAtomicAccess) progress();
  for (int l = 0; l < kLanes; l++) {
    if (!(a.lanes >> l & 1)) continue;
    const u64 at = a.address[l];
    pointer[l] = nullptr;
    if (space == kGlobal) {
      // An atomic operation reads what it changes.
      if (a.mode == kAtomicAccess) global(x, i, l, at, a.bytes, false);
      pointer[l] = global(x, i, l, at, a.bytes, a.write);
    } else if (space == kShared) {
      pointer[l] = shared(x, i, l, static_cast<u32>(at), a.bytes, a.write);
      if (pointer[l]) {
        track(x, i, l, static_cast<u32>(at) - kSharedBase, a.bytes, a.write, a.mode);
      }
    } else if (space == kLocal) {
      if (at + a.bytes <= static_cast<u64>(program.local_bytes)) {
        pointer[l] = x.warp->local.data() + l * program.local_bytes + at;
      } else {
        report("oob-local", x, i, l, at,
               sized(a.write, a.bytes) + " at byte " + std::to_string(at) + " of " +
                   std::to_string(program.local_bytes) + " of the thread's own memory");
      }
    } else if (at + a.bytes <= launch.params.size() && !a.write) {
      pointer[l] = launch.params.data() + at;
    } else {
      report("oob-param", x, i, l, at, sized(a.write, a.bytes) + " outside of the parameters");
    }
  }
}

/// Sectors of 32 bytes that a warp's access moves, and the bytes of them that it uses.
void Block::count_global(const Ins& i, const u64* address, u32 lanes, int bytes) {
  Stat& s = (*stats)[pc_of(i)];
  const int active = __builtin_popcount(lanes);
  s.bytes += static_cast<u64>(bytes) * active;
  if (lanes == kAllLanes) {
    bool dense = true;
    for (int l = 1; l < kLanes; l++)
      dense &= address[l] == address[0] + static_cast<u64>(l) * bytes;
    if (dense) {
      const u64 n = static_cast<u64>(bytes) * kLanes;
      s.sectors += ((address[0] + n - 1) >> 5) - (address[0] >> 5) + 1;
      s.useful += n;
      return;
    }
  }
  u64 sorted[kLanes];
  int count = 0;
  for (int l = 0; l < kLanes; l++) {
    if (lanes >> l & 1) sorted[count++] = address[l];
  }
  std::sort(sorted, sorted + count);
  u64 sector = ~0ull, end = 0;
  for (int k = 0; k < count; k++) {
    const u64 begin = std::max(sorted[k], end);
    const u64 stop_at = sorted[k] + bytes;
    if (stop_at > begin) s.useful += stop_at - begin, end = stop_at;
    for (u64 t = sorted[k] >> 5; t <= (stop_at - 1) >> 5; t++) {
      if (t > sector || sector == ~0ull) s.sectors++, sector = t;
    }
  }
}

/// Turns that the 32 banks need, and the turns that an access without conflicts would need.
void Block::count_shared(const Ins& i, const u64* address, u32 lanes, int bytes) {
  Stat& s = (*stats)[pc_of(i)];
  s.bytes += static_cast<u64>(bytes) * __builtin_popcount(lanes);
  const int per = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;  // lanes in one turn
  const int words = bytes <= 4 ? 1 : bytes / 4;
  for (int begin = 0; begin < kLanes; begin += per) {
    const u32 part = per == 32 ? lanes : lanes >> begin & ((1u << per) - 1);
    if (!part) continue;
    u32 seen[32][4];  // different words of a bank
    u8 used[32] = {};
    int turns = 1;
    for (int l = 0; l < per; l++) {
      if (!(part >> l & 1)) continue;
      for (int k = 0; k < words; k++) {
        const u32 word = static_cast<u32>(address[begin + l] >> 2) + k;
        const u32 bank = word % 32;
        int known = 0;
        const int kept = std::min<int>(used[bank], 4);
        while (known < kept && seen[bank][known] != word) known++;
        if (known < kept) continue;
        if (used[bank] < 4) seen[bank][used[bank]] = word;
        turns = std::max<int>(turns, ++used[bank]);
      }
    }
    s.wavefronts += turns;
    s.ideal++;
  }
}

}  // namespace sim
