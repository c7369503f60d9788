// A grid: worker threads take blocks until none is left, then their results are put together.
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <thread>

#include "exec.h"

namespace sim {
namespace {

// A block that waits this long may wait for one that has not begun; then another one starts.
constexpr u64 kWaiting = 300'000;
constexpr size_t kResident = 64;

struct Worker {
  Worker(Launch& l, u64 blocks, u64 step) : launch(l), total(blocks), stride(step) {}

  Launch& launch;
  u64 total, stride;
  std::vector<Stat> stats;
  std::map<Key, Finding> findings;
  std::string printed;
  std::deque<std::unique_ptr<Block>> active;

  bool start() {
    const u64 turn = launch.next_block++;
    if (turn >= total) return false;
    // With a seed, blocks begin in another order; `stride` has no divisor in common with `total`.
    const u64 number =
        launch.seed == 0
            ? turn
            : static_cast<u64>((static_cast<unsigned __int128>(turn) * stride + launch.seed) %
                               total);
    active.push_back(std::make_unique<Block>(launch, number));
    active.back()->stats = &stats;
    active.back()->findings = &findings;
    active.back()->printed = &printed;
    return true;
  }

  void run() {
    stats.resize(launch.program->code.size());
    while (!launch.cancelled && (!active.empty() || start())) {
      std::unique_ptr<Block> block = std::move(active.front());
      active.pop_front();
      bool more = true;
      bool waits = false;
      while (more && !waits) {
        more = block->step();
        waits = block->idle > kWaiting && active.size() < kResident;
      }
      if (!more) continue;
      const bool fresh = start();
      active.push_back(std::move(block));
      if (!fresh && active.size() == 1) {
        // Nobody is left to wait for: let it run until it ends or counts as hung.
        while (active.front()->step()) {
        }
        active.pop_front();
      }
    }
  }
};

u64 stride_of(u64 seed, u64 total) {
  u64 stride = (seed * 2654435761u | 1) % std::max<u64>(total, 1);
  while (std::gcd(stride, total) != 1) stride++;
  return stride;
}

void merge(Launch& launch, Worker& w) {
  for (size_t i = 0; i < w.stats.size(); i++) {
    Stat& to = launch.stats[i];
    const Stat& from = w.stats[i];
    to.executed += from.executed;
    to.lanes += from.lanes;
    to.wavefronts += from.wavefronts;
    to.ideal += from.ideal;
    to.sectors += from.sectors;
    to.bytes += from.bytes;
    to.useful += from.useful;
  }
  for (auto& [key, finding] : w.findings) {
    auto [known, fresh] = launch.findings.emplace(key, finding);
    if (fresh) continue;
    const u64 count = known->second.count + finding.count;
    if (finding.block_number < known->second.block_number) known->second = finding;
    known->second.count = count;
  }
  launch.printed += w.printed;
}

}  // namespace

/// Room for who was where, in all allocations; the system gives pages as they are touched.
void Launch::watch_blocks(Map& map) {
  for (Allocation& a : map) {
    const u64 bytes = (a.size / program->least_bytes + 2) * sizeof(Owners);
    void* room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) a.owners = static_cast<Owners*>(room);
  }
}

void Launch::run() {
  const Program& p = *program;
  const u64 total = static_cast<u64>(grid[0]) * grid[1] * grid[2];
  // Blocks that talk to each other by atomics, flags or fences may be ordered; others never are.
  // What ran tells which these are: a kernel may have an atomic for a case that does not come, as
  // kernels of kdsl have for an index that is out of range.
  std::shared_ptr<Map> watched;
  if (total > 1 && total < 0xfffffffe) {
    watched = std::make_shared<Map>(*memory);
    watch_blocks(*watched);
    memory = watched;
  }
  stats.assign(p.code.size(), Stat());
  constants.assign(p.constant_bytes + 64, 0);
  for (const Constant& c : p.constants) {
    u8* row = constants.data() + (c.offset & 0x7fffffff);
    if (c.bytes == 1) {
      reinterpret_cast<u32*>(row)[0] = c.bits ? kAllLanes : 0;
    } else {
      for (int l = 0; l < kLanes; l++) memcpy(row + l * c.bytes, &c.bits, c.bytes);
    }
  }
  const u64 stride = stride_of(seed, total);
  const int count = static_cast<int>(std::min<u64>(std::max(threads, 1), total));
  std::deque<Worker> workers;
  for (int i = 0; i < count; i++) workers.emplace_back(*this, total, stride);
  std::vector<std::thread> others;
  for (int i = 1; i < count; i++) others.emplace_back([&workers, i] { workers[i].run(); });
  if (count > 0) workers[0].run();
  for (std::thread& t : others) t.join();
  for (Worker& w : workers) merge(*this, w);
  for (auto it = findings.begin(); ordered && it != findings.end();) {
    it = it->second.of_blocks ? findings.erase(it) : std::next(it);
  }
  for (size_t k = 0; watched && k < watched->size(); k++) {
    const Allocation& a = (*watched)[k];
    if (a.owners) munmap(a.owners, (a.size / p.least_bytes + 2) * sizeof(Owners));
  }
}

}  // namespace sim
