// ptx.h: PTX text as a tree: functions, variables, statements. No meaning of instructions yet.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base.h"

namespace sim {

/// What stands between the commas of an instruction.
struct Operand {
  enum Kind {
    kName,    // a register or symbol, perhaps with an offset: %r1, smem, smem+16
    kInt,     // 12, -1, 0x1F
    kFloat,   // 0f3F800000, 0d..., 1.5: `bits` are those of a double
    kMemory,  // [items[0] + offset]; more items: [map, {x, y}]
    kVector,  // {a, b}
    kList,    // (a, b)
    kPair,    // p|q
    kSink,    // _
  };
  Kind kind = kSink;
  std::string name;
  bool inverted = false;  // !%p
  u64 bits = 0;
  i64 offset = 0;
  std::vector<Operand> items;
};

/// A declared variable or parameter.
struct Variable {
  std::string space;  // reg param shared global const local
  std::string type;   // b8 u32 ...
  std::string name;
  i64 align = 0;
  i64 count = 1;  // elements
  bool array = false, external = false;
  std::vector<Operand> init;
};

struct Statement {
  enum Kind { kCode, kLabel, kOpen, kClose, kRegisters, kVariable, kTargets };
  Kind kind = kCode;
  std::vector<std::string> op;  // "ld.global.f32" in pieces; a label's name; a register type
  std::string guard;            // @%p
  bool guard_inverted = false;
  std::vector<Operand> operands;  // of kRegisters: names, `bits` their number for %r<12>
  Variable variable;
  int line = 0;  // in the PTX text
  int place = 0;
  std::string text;
};

/// A place in the source as .loc gives it; `inlined_at` is an index of the place that called it.
struct Place {
  int file = 0, line = 0, column = 0;
  int inlined_at = -1;
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  std::vector<Variable> params, returns;
  std::vector<int> max_threads;  // .maxntid or .reqntid
  bool exact_threads = false;    // .reqntid
  std::vector<Statement> body;
  int line = 0;
};

struct Module {
  std::string target;  // sm_80
  std::map<int, std::string> files;
  std::vector<Place> places{Place()};
  std::vector<Variable> variables;
  std::map<std::string, Function> functions;
};

/// Parse PTX text; throws Error with the line of what it cannot read.
Module parse(const std::string& text);

}  // namespace sim
