// exec.h: the state of a running launch: grid, block, warp, and what handlers see of it.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "heap.h"
#include "program.h"

namespace sim {

constexpr int kLanes = 32;
constexpr int kMaxWarps = 32;
constexpr int kBarriers = 16;

// A generic address says in its upper bits which memory it leads to; host pointers have none there.
constexpr u64 kSharedWindow = 1ull << 60, kLocalWindow = 2ull << 60, kParamWindow = 3ull << 60;
// Shared memory does not begin at 0, so that a null pointer into it is found.
constexpr u32 kSharedBase = 1024;

enum Space : u8 { kGeneric, kGlobal, kShared, kLocal, kParam };

/// Counters of one instruction.
struct Stat {
  u64 executed = 0, lanes = 0, wavefronts = 0, ideal = 0, sectors = 0, bytes = 0, useful = 0;
};

/// One thing found wrong, at one pair of instructions.
struct Finding {
  const char* kind = "";
  i32 pc = 0, other = -1;
  u64 count = 0;
  u32 block[3] = {0, 0, 0};
  u64 block_number = 0;
  u32 thread = 0;
  u64 address = 0;
  std::string text;
  bool of_blocks = false;  // a race between blocks: none where something ordered them
};

/// Kind (a literal), instruction, other instruction.
using Key = std::tuple<const char*, i32, i32>;

using Clock = std::array<u32, kMaxWarps>;

struct Launch {
  const Program* program = nullptr;
  u32 grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  u32 dynamic_shared = 0;
  std::vector<u8> params;
  u64 seed = 0, limit = 50'000'000;
  int threads = 1;
  std::shared_ptr<const Map> memory;
  std::vector<u8> constants;

  // Results.
  std::vector<Stat> stats;
  std::map<Key, Finding> findings;
  std::string printed;
  bool trapped = false;

  std::atomic<bool> cancelled{false};
  /// An atomic, a flag or a fence in global memory ran, which may order blocks.
  std::atomic<bool> ordered{false};
  std::atomic<u64> next_block{0};
  std::atomic<u32> grid_id{0};

  /// Run all blocks and merge what they found; returns when done or cancelled.
  void run();

 private:
  void watch_blocks(Map& map);
};

/// Threads of a warp that stand at one instruction.
struct Split {
  i32 pc;
  u32 lanes;
  i32 barrier = -1;  // the one they wait at
};

/// A cp.async of one warp whose data is not there yet.
struct Copy {
  i32 pc;
  u32 lanes;
  int bytes;
  std::array<u32, kLanes> to, group;
  std::array<u64, kLanes> from;
  std::array<u8, kLanes> length;
};

struct Warp {
  int id = 0;
  u8* file = nullptr;
  u32 all = 0, exited = 0;
  std::vector<Split> splits;
  Clock clock{}, fence{}, acquired{};
  std::vector<Copy> copies;
  std::array<u32, kLanes> commits{};
  std::vector<u8> local;
  bool arrived = false;  // waits for other warps at `barrier`
  int barrier = 0;
  bool rotate = false;  // the next slice is for another split
  bool done() const { return splits.empty(); }
};

/// What the race detector knows of four bytes of shared memory. Atomic operations do not race with
/// each other; so that they hide no plain write before them, they are remembered apart.
struct Shadow {
  u32 write_clock = 0, atomic_clock = 0;
  i32 write_pc = -1, atomic_pc = -1;
  u32 readers = 0;  // warps, in epoch `read_epoch`
  i32 read_pc = -1;
  u32 read_epoch = 0;
  u8 writer = 0, atomic_writer = 0;
  u8 bytes = 0;    // of the last write, and which were read since: bits 0-3, 4-7
  u8 written = 0;  // bits 0-3: bytes with a value; 4: a copy is under way
};

struct Barrier {
  u32 expected = 0;  // threads; 0: all of the block
  u32 arrived = 0;
  u32 warps = 0;  // that wait
  Clock clock{};
  u32 count = 0, conjunction = 1, disjunction = 0;  // of bar.red
};

class Block;

/// What a handler works on.
struct Exec {
  u8* file;
  const u8* constants;
  Warp* warp;
  Block* block;

  template <class T>
  T* row(i32 offset) const {
    const u8* base = offset < 0 ? constants : file;
    return reinterpret_cast<T*>(const_cast<u8*>(base) + (offset & 0x7fffffff));
  }
};

/// How an access takes part in ordering: plain; a flag (volatile, relaxed, acquire, release); a
/// read and write in one.
enum Mode : u8 { kPlainAccess, kFlag, kAtomicAccess };

/// One memory access of a warp, as handlers describe it.
struct Access {
  u64 address[kLanes];
  u32 lanes = 0;
  int bytes = 4;
  Space space = kGeneric;
  bool write = false;
  Mode mode = kPlainAccess;
};

class Block {
 public:
  Block(Launch& launch, u64 number);
  /// Let every warp run for a while; false: the block has ended.
  bool step();

  void report(const char* kind, const Exec& x, const Ins& i, int lane, u64 address,
              const std::string& text, i32 other = -1);
  /// True, and counted, where the same was reported before: no text need be made.
  bool again(const char* kind, const Ins& i, i32 other = -1);
  i32 pc_of(const Ins& i) const { return static_cast<i32>(&i - program.code.data()); }

  /// Check and count an access; `pointer` gets the host address of each lane, or null.
  void resolve(Exec& x, const Ins& i, const Access& access, u8* pointer[kLanes]);
  /// As `resolve` for shared memory alone; false: out of bounds or misaligned, and reported.
  u8* shared(Exec& x, const Ins& i, int lane, u32 address, int bytes, bool write);
  u8* global(Exec& x, const Ins& i, int lane, u64 address, int bytes, bool write,
             int alignment = 0);
  void count_global(const Ins& i, const u64* address, u32 lanes, int bytes);
  void count_shared(const Ins& i, const u64* address, u32 lanes, int bytes);

  void track(Exec& x, const Ins& i, int lane, u32 offset, int bytes, bool write,
             Mode mode = kPlainAccess);
  /// Two blocks in one place, one of them writing: nothing orders them.
  void track_global(Exec& x, const Ins& i, int lane, u64 address, int bytes, bool write);
  /// A copy into shared memory begins: nobody may touch the bytes until it is waited for.
  void track_copy(Exec& x, const Ins& i, int lane, u32 offset, int bytes);
  void land(Warp& w, const Copy& copy, int lane);

  /// A flag at `address`, used by warps to order what they do: see order.cc.
  void acquire(Warp& w, u64 address, bool at_once);
  void publish(Warp& w, u64 address, bool at_once);
  void fence(Warp& w);

  void progress() { idle = 0; }

  Launch& launch;
  const Program& program;
  u64 number;
  u32 index[3];
  u32 thread_count;
  std::vector<Warp> warps;
  std::vector<u8> memory;  // shared
  std::vector<Shadow> shadows;
  std::vector<u32> read_clocks;  // [shadow][warp], where a program has barriers of some warps
  std::vector<Stat>* stats = nullptr;
  std::map<Key, Finding>* findings = nullptr;
  std::string* printed = nullptr;
  u32 epoch = 1;
  bool stop = false;
  u64 idle = 0;
  u64 random = 0;
  const Allocation* last = nullptr;  // the allocation of the access before

 private:
  void prepare();
  void fill_specials(Warp& w);
  void run_warp(Warp& w, u64 budget);
  int pick(Warp& w, i32& next);
  void stand_at_barrier(Warp& w);
  void enter(Warp& w, const Ins& i, u32 lanes);
  void resume(Warp& w, const Barrier& barrier, int number);
  bool release_barriers();
  void join(int number);
  void deadlock();
  u32 roll() {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<u32>(random >> 33);
  }

  std::vector<u8> files_;
  Barrier barriers_[kBarriers];
  std::unordered_map<u64, Clock> released_;  // clocks published at an address
};

}  // namespace sim
