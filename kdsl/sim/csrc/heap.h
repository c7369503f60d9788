// heap.h: the simulated device's global memory: exact allocations, each with guard zones around it.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base.h"

namespace sim {

/// Who was at a few bytes of global memory: a block's number + 1 in the upper half, 0: nobody, and
/// the instruction in the lower.
struct Owners {
  std::atomic<u64> writer, reader;
};

/// A stretch of global memory that kernels may touch. Its address is that of host memory.
struct Allocation {
  u64 base = 0, size = 0;
  u8* written = nullptr;  // a byte for each byte: has anything written it? null: all of it counts
  struct Owners* owners = nullptr;  // during a launch: which blocks were where
  std::string name;                 // for reports: "argument 2", "scratch"
  void* mapping = nullptr;
  u64 mapped = 0;
};

/// All allocations, sorted by address; never changes once made.
using Map = std::vector<Allocation>;

class Heap {
 public:
  /// The one of this process.
  static Heap& get();

  /// New memory; `tracked`: reading what nothing wrote is reported. 0 where there is no memory.
  u64 allocate(u64 size, bool tracked, const std::string& name);
  /// Host memory that kernels may touch where it lies.
  void add(u64 base, u64 size, const std::string& name);
  /// False: no allocation begins there.
  bool release(u64 base);
  /// Say that the host wrote there.
  void mark_written(u64 base, u64 size);
  std::shared_ptr<const Map> map();
  /// The allocation that holds an address, or null.
  const Allocation* find(u64 address);
  /// How an address outside of all allocations relates to the nearest of them.
  std::string describe(const Map& map, u64 address, int bytes);

 private:
  std::mutex lock_;
  std::shared_ptr<const Map> map_ = std::make_shared<Map>();
  std::vector<Allocation> freed_;  // the last ones
};

/// The allocation of a sorted map that holds `address`, or null.
const Allocation* find(const Map& map, u64 address);

}  // namespace sim
