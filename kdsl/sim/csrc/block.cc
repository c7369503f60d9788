// One block: its warps take turns, threads of a warp part and meet again, barriers open.
#include <algorithm>

#include "exec.h"

namespace sim {
namespace {

// Warp instructions until another warp has its turn; random below that where a seed is given.
constexpr u64 kSlice = 20000;
constexpr u64 kShortSlice = 600;

std::string names(u32 bits) {
  std::string out;
  for (int i = 0; i < kMaxWarps; i++) {
    if (!(bits >> i & 1)) continue;
    int end = i;
    while (end + 1 < kMaxWarps && (bits >> (end + 1) & 1)) end++;
    out += (out.empty() ? "" : ", ") + std::to_string(i);
    if (end > i) out += "-" + std::to_string(end);
    i = end;
  }
  return out;
}

}  // namespace

Block::Block(Launch& l, u64 n) : launch(l), program(*l.program), number(n) {
  index[0] = static_cast<u32>(n % l.grid[0]);
  index[1] = static_cast<u32>(n / l.grid[0] % l.grid[1]);
  index[2] = static_cast<u32>(n / l.grid[0] / l.grid[1]);
  thread_count = l.block[0] * l.block[1] * l.block[2];
  random = (l.seed * 0x9E3779B97F4A7C15ull) ^ (n * 0xD1B54A32D192ED03ull);
  prepare();
}

void Block::prepare() {
  const int count = static_cast<int>(thread_count + kLanes - 1) / kLanes;
  const i64 file = round_up(program.file_bytes + 64, 64);
  const i64 shared_bytes = program.static_shared - kSharedBase + launch.dynamic_shared;
  memory.assign(shared_bytes, 0xCD);
  shadows.assign(shared_bytes / 4 + 1, Shadow());
  if (program.partial_barriers) read_clocks.assign(shadows.size() * count, 0);
  files_.assign(file * count + 64, 0);
  u8* base = files_.data() + (64 - reinterpret_cast<u64>(files_.data()) % 64);
  warps.resize(count);
  for (int i = 0; i < count; i++) {
    Warp& w = warps[i];
    const u32 threads = std::min<u32>(kLanes, thread_count - i * kLanes);
    w.id = i;
    w.file = base + file * i;
    w.all = threads == kLanes ? kAllLanes : (1u << threads) - 1;
    w.splits = {{0, w.all, -1}};
    w.clock[i] = 1;
    w.local.assign(program.local_bytes * kLanes, 0xCD);
    fill_specials(w);
  }
}

void Block::fill_specials(Warp& w) {
  for (int s = 0; s < kSpecials; s++) {
    if (program.special[s] < 0) continue;
    u32* row = reinterpret_cast<u32*>(w.file + program.special[s]);
    for (u32 l = 0; l < kLanes; l++) {
      const u32 t = w.id * kLanes + l;
      const u32 tid[3] = {t % launch.block[0], t / launch.block[0] % launch.block[1],
                          t / launch.block[0] / launch.block[1]};
      u32 v = 0;
      if (s < kNtid)
        v = tid[s - kTid];
      else if (s < kCtaid)
        v = launch.block[s - kNtid];
      else if (s < kNctaid)
        v = index[s - kCtaid];
      else if (s < kLane)
        v = launch.grid[s - kNctaid];
      else if (s == kLane)
        v = l;
      else if (s == kWarp)
        v = w.id;
      else if (s == kWarps)
        v = static_cast<u32>(warps.size());
      else if (s == kSm)
        v = static_cast<u32>(number % 108);
      else if (s == kSms)
        v = 108;
      else if (s == kGrid)
        v = launch.grid_id;
      else if (s == kLaneEq)
        v = 1u << l;
      else if (s == kLaneLe)
        v = (2u << l) - 1;
      else if (s == kLaneLt)
        v = (1u << l) - 1;
      else if (s == kLaneGe)
        v = ~((1u << l) - 1);
      else if (s == kLaneGt)
        v = ~((2u << l) - 1);
      else if (s == kDynamicShared)
        v = launch.dynamic_shared;
      else if (s == kTotalShared)
        v = static_cast<u32>(memory.size());
      else if (s == kAlways1)
        v = 1;
      row[l] = v;
    }
  }
}

bool Block::step() {
  std::vector<int> order;
  for (Warp& w : warps) {
    if (!w.done() && !w.arrived) order.push_back(w.id);
  }
  if (launch.seed != 0) {
    for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[roll() % i]);
  }
  for (int id : order) {
    run_warp(warps[id], launch.seed != 0 ? 1 + roll() % kShortSlice : kSlice);
    if (stop || launch.cancelled.load(std::memory_order_relaxed)) return false;
  }
  const bool released = release_barriers();
  if (order.empty() && !released) {
    const bool all_done =
        std::all_of(warps.begin(), warps.end(), [](const Warp& w) { return w.done(); });
    if (!all_done) deadlock();
    return false;
  }
  return true;
}

/// The split to run: the one furthest behind, so that the others wait for it where paths meet.
int Block::pick(Warp& w, i32& next) {
  std::vector<Split>& splits = w.splits;
  int best = -1;
  for (int i = 0; i < static_cast<int>(splits.size()); i++) {
    if (splits[i].barrier >= 0) continue;
    const bool better = w.rotate ? splits[i].pc > splits[std::max(best, 0)].pc
                                 : splits[i].pc < splits[std::max(best, 0)].pc;
    if (best < 0 || better) best = i;
  }
  w.rotate = false;
  next = INT32_MAX;
  if (best < 0) return best;
  for (int i = static_cast<int>(splits.size()) - 1; i >= 0; i--) {
    if (i == best || splits[i].barrier >= 0) continue;
    if (splits[i].pc == splits[best].pc) {
      splits[best].lanes |= splits[i].lanes;
      splits.erase(splits.begin() + i);
      if (i < best) best--;
    } else if (splits[i].pc > splits[best].pc) {
      next = std::min(next, splits[i].pc);
    }
  }
  return best;
}

void Block::run_warp(Warp& w, u64 budget) {
  Exec x{w.file, launch.constants.data(), &w, this};
  const Ins* const code = program.code.data();
  Stat* const counters = stats->data();
  u64 steps = 0;
  while (true) {
    i32 next;
    const int at = pick(w, next);
    if (at < 0) {
      if (!w.splits.empty()) stand_at_barrier(w);
      return;
    }
    i32 pc = w.splits[at].pc;
    u32 lanes = w.splits[at].lanes;
    while (true) {
      const Ins& i = code[pc];
      u32 m = lanes;
      if (i.guard >= 0) {
        const u32 guard = *reinterpret_cast<const u32*>(w.file + i.guard);
        m &= i.inverted ? ~guard : guard;
      }
      counters[pc].executed++;
      counters[pc].lanes += __builtin_popcount(m);
      steps++;
      if (__builtin_expect(i.kind == Ins::kPlain, 1)) {
        if (m) i.run(x, i, m);
        pc++;
      } else if (i.kind == Ins::kBranch) {
        if (m == 0) {
          pc++;
        } else {
          if (m != lanes) {
            w.splits[at] = {pc + 1, lanes & ~m, -1};
            w.splits.push_back({i.target, m, -1});
          }
          const bool back = i.target <= pc;
          if (back) {
            idle += steps;
            budget -= std::min(budget, steps);
            steps = 0;
          }
          if (m == lanes) w.splits[at].pc = pc = i.target;
          if (back && (budget == 0 || idle > launch.limit || stop)) {
            if (idle > launch.limit) {
              report("hang", x, i, 0, 0,
                     std::to_string(launch.limit) +
                         " instructions of the block changed no memory and passed no barrier");
              stop = true;
              launch.cancelled = true;
            }
            w.rotate = w.splits.size() > 1;
            return;
          }
          if (m != lanes || w.splits.size() > 1) break;
          continue;
        }
      } else if (i.kind == Ins::kTable) {
        i.run(x, i, m);  // makes the splits
        w.splits[at].lanes = lanes & ~m;
        w.splits[at].pc = pc + 1;
        if (w.splits[at].lanes == 0) w.splits.erase(w.splits.begin() + at);
        break;
      } else if (i.kind == Ins::kExit) {
        w.exited |= m;
        lanes &= ~m;
        if (lanes == 0) {
          w.splits.erase(w.splits.begin() + at);
          progress();
          break;
        }
        w.splits[at] = {++pc, lanes, -1};
      } else if (m == 0) {
        pc++;
      } else if (i.imm[0] == 1) {  // bar.arrive
        enter(w, i, m);
        pc++;
      } else {
        const int number = x.row<u32>(i.row[1])[__builtin_ctz(m)] % kBarriers;
        w.splits[at] = {pc, m, number};
        if (m != lanes) w.splits.push_back({pc + 1, lanes & ~m, -1});
        break;
      }
      if (pc >= next || stop) {
        w.splits[at] = {pc, lanes, -1};
        if (stop) return;
        break;
      }
    }
  }
}

/// All threads of the warp wait at barriers: at one, as they must, or the warp has diverged.
void Block::stand_at_barrier(Warp& w) {
  std::vector<Split>& splits = w.splits;
  std::sort(splits.begin(), splits.end(),
            [](const Split& a, const Split& b) { return a.pc < b.pc; });
  for (size_t i = splits.size() - 1; i > 0; i--) {
    if (splits[i].pc != splits[i - 1].pc) continue;
    splits[i - 1].lanes |= splits[i].lanes;
    splits.erase(splits.begin() + i);
  }
  const Exec x{w.file, launch.constants.data(), &w, this};
  const Ins& i = program.code[splits[0].pc];
  const int lane = __builtin_ctz(splits[0].lanes);
  const u32 missing = w.all & ~splits[0].lanes;
  if (splits.size() > 1) {
    report("divergent-barrier", x, i, lane, 0,
           std::to_string(__builtin_popcount(missing)) +
               " threads of the warp wait at another barrier or have ended",
           splits[1].pc);
  } else if (missing) {
    report("divergent-barrier", x, i, lane, 0,
           std::to_string(__builtin_popcount(missing)) +
               " threads of the warp ended without coming to this barrier");
  }
  enter(w, i, splits[0].lanes);
}

void Block::enter(Warp& w, const Ins& i, u32 lanes) {
  const Exec x{w.file, launch.constants.data(), &w, this};
  const int lane = __builtin_ctz(lanes);
  const int number = x.row<u32>(i.row[1])[lane] % kBarriers;
  Barrier& b = barriers_[number];
  b.expected = i.operands > 2 ? x.row<u32>(i.row[2])[lane] : 0;
  b.arrived += kLanes;
  for (int k = 0; k < kMaxWarps; k++) b.clock[k] = std::max(b.clock[k], w.clock[k]);
  if (i.imm[0] == 1) {
    w.clock[w.id]++;
    return;
  }
  b.warps |= 1u << w.id;
  w.arrived = true;
  w.barrier = number;
  if (i.imm[0] >= 2) {
    u32 bits = *x.row<u32>(i.row[3]);
    if (i.imm[1]) bits = ~bits;
    b.count += __builtin_popcount(bits & lanes);
    b.conjunction &= (bits & lanes) == lanes;
    b.disjunction |= (bits & lanes) != 0;
  }
}

bool Block::release_barriers() {
  bool released = false;
  u32 alive = 0;
  for (const Warp& w : warps) alive |= w.done() ? 0 : 1u << w.id;
  for (int n = 0; n < kBarriers; n++) {
    Barrier& b = barriers_[n];
    if (b.arrived == 0) continue;
    const bool open = b.expected ? b.arrived >= b.expected : b.warps != 0 && b.warps == alive;
    if (!open) continue;
    join(n);
    released = true;
  }
  return released;
}

void Block::join(int number) {
  Barrier b = barriers_[number];
  barriers_[number] = Barrier();
  u32 alive = 0;
  for (const Warp& w : warps) alive |= w.done() ? 0 : 1u << w.id;
  const u32 everyone = warps.size() == kMaxWarps ? ~0u : (1u << warps.size()) - 1;
  if (b.expected == 0 && alive != everyone) {
    Warp& w = warps[__builtin_ctz(b.warps)];
    const Exec x{w.file, launch.constants.data(), &w, this};
    report("divergent-barrier", x, program.code[w.splits[0].pc], 0, 0,
           "warps " + names(everyone & ~alive) + " ended without coming to this barrier");
  }
  for (Warp& w : warps) {
    if (w.arrived && w.barrier == number) resume(w, b, number);
  }
  // Everything before a barrier of all warps is ordered with everything after it.
  if (b.warps == alive) epoch++;
  progress();
}

void Block::resume(Warp& w, const Barrier& b, int number) {
  const Exec x{w.file, launch.constants.data(), &w, this};
  w.arrived = false;
  w.clock = b.clock;
  w.clock[w.id]++;
  for (Split& s : w.splits) {
    if (s.barrier != number) continue;
    const Ins& i = program.code[s.pc];
    if (i.imm[0] == 2) {
      u32* to = x.row<u32>(i.row[0]);
      for (int l = 0; l < kLanes; l++) to[l] = s.lanes >> l & 1 ? b.count : to[l];
    } else if (i.imm[0] > 2) {
      u32* to = x.row<u32>(i.row[0]);
      const bool value = i.imm[0] == 3 ? b.conjunction : b.disjunction;
      *to = (*to & ~s.lanes) | (value ? s.lanes : 0);
    }
    s.barrier = -1;
    s.pc++;
  }
}

void Block::deadlock() {
  for (Warp& w : warps) {
    if (w.done()) continue;
    const Exec x{w.file, launch.constants.data(), &w, this};
    const Barrier& b = barriers_[w.barrier];
    const u32 expected = b.expected ? b.expected : static_cast<u32>(warps.size()) * kLanes;
    report("deadlock", x, program.code[w.splits[0].pc], 0, 0,
           "warps " + names(b.warps) + " wait at barrier " + std::to_string(w.barrier) + " for " +
               std::to_string(expected) + " threads; " + std::to_string(b.arrived) + " came");
    stop = true;
    return;
  }
}

bool Block::again(const char* kind, const Ins& i, i32 other) {
  const auto it = findings->find({kind, pc_of(i), other});
  if (it == findings->end() || it->second.block_number > number) return false;
  it->second.count++;
  return true;
}

void Block::report(const char* kind, const Exec& x, const Ins& i, int lane, u64 address,
                   const std::string& text, i32 other) {
  Finding& f = (*findings)[{kind, pc_of(i), other}];
  if (f.count++ > 0 && f.block_number <= number) return;
  f.kind = kind;
  f.pc = pc_of(i);
  f.other = other;
  std::copy(index, index + 3, f.block);
  f.block_number = number;
  f.thread = x.warp->id * kLanes + lane;
  f.address = address;
  f.text = text;
}

}  // namespace sim
