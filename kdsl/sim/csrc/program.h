// program.h: a kernel as the executor runs it: a flat list of instructions over rows of registers.
//
// A register of a warp is a row: 32 lanes of 4 or 8 bytes, or one word of bits for a predicate. A
// row is known by its byte offset in the warp's register file; a negative offset leads into the
// table of constants, which all warps share.
#pragma once
#include <string>
#include <vector>

#include "base.h"
#include "ptx.h"

namespace sim {

struct Exec;
struct Ins;

/// Runs one instruction for the lanes of a mask that is never empty.
using Handler = void (*)(Exec&, const Ins&, u32 lanes);

struct Ins {
  enum Kind : u8 { kPlain, kBranch, kTable, kExit, kBarrier };
  Handler run = nullptr;
  const i32* row = nullptr;  // of each operand
  i64 imm[3] = {0, 0, 0};
  i32 guard = -1;  // offset of the predicate's row
  i32 target = -1;
  u32 tensor_flops = 0;  // of the warp
  Kind kind = kPlain;
  bool inverted = false;  // run where the guard is false
  u8 operands = 0;
  u8 flops = 0;  // of an active lane
};

/// What the reports say of an instruction.
struct Origin {
  int place = 0, line = 0;
  std::string text;
};

/// Registers with a value from the start; three of each vector, x first.
enum Special : u8 {
  kTid,
  kNtid = 3,
  kCtaid = 6,
  kNctaid = 9,
  kLane = 12,
  kWarp,
  kWarps,
  kSm,
  kSms,
  kGrid,
  kLaneEq,
  kLaneLe,
  kLaneLt,
  kLaneGe,
  kLaneGt,
  kDynamicShared,
  kTotalShared,
  kAlways0,
  kAlways1,
  kSpecials,
};

struct Constant {
  i32 offset;
  u8 bytes;  // of a lane; 1: a predicate
  u64 bits;
};

struct Program {
  const Module* module = nullptr;
  std::string name;
  std::vector<Ins> code;
  std::vector<Origin> origins;
  std::vector<i32> pool;                 // operands of all instructions
  std::vector<std::vector<i32>> tables;  // targets of brx
  std::vector<Constant> constants;
  i32 special[kSpecials];  // offset of its row, -1: not used
  i64 file_bytes = 0, constant_bytes = 0, local_bytes = 0;
  i64 static_shared = 0;          // where dynamic shared memory begins
  bool partial_barriers = false;  // or flags, or fences: order is more than barriers of all warps
  int least_bytes = 4;            // of an element of global memory that it touches, at most 4
  std::vector<Variable> params;
  std::vector<i64> param_offsets;
  i64 param_bytes = 0;
  std::vector<int> max_threads;
  bool exact_threads = false;
};

}  // namespace sim
