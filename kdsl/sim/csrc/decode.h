// decode.h: from PTX statements to instructions of a Program; one function for each family.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec.h"
#include "program.h"
#include "types.h"

namespace sim {

class Decoder;
using DecodeOp = void (*)(Decoder&);
/// What decodes an instruction, by the part of its name before the first dot.
using OpTable = std::unordered_map<std::string, DecodeOp>;

void add_async_ops(OpTable& table);
void add_atomic_ops(OpTable& table);
void add_bit_ops(OpTable& table);
void add_compare_ops(OpTable& table);
void add_control_ops(OpTable& table);
void add_convert_ops(OpTable& table);
void add_float_ops(OpTable& table);
void add_integer_ops(OpTable& table);
void add_matrix_ops(OpTable& table);
void add_memory_ops(OpTable& table);
void add_move_ops(OpTable& table);
void add_special_float_ops(OpTable& table);
void add_warp_ops(OpTable& table);

// `add` and others name integers and floats alike; what decodes integers hands floats over.
void decode_float_add(Decoder& d);
void decode_float_sub(Decoder& d);
void decode_float_mul(Decoder& d);
void decode_float_fma(Decoder& d);
void decode_float_div(Decoder& d);
void decode_float_min(Decoder& d);
void decode_float_max(Decoder& d);
void decode_float_neg(Decoder& d);
void decode_float_abs(Decoder& d);
/// Those of f16, bf16 and pairs of them; false: another type.
bool decode_half(Decoder& d);

/// A register as decoded, before rows are shared among them.
struct Reg {
  enum Kind : u8 { kFree, kConstant, kSpecial };
  Width width;
  Kind kind = kFree;
  u64 value = 0;  // of a constant; which special
  i32 offset = 0;
};

struct Arg {
  int reg;
  bool defined;
};
inline Arg in(int reg) { return {reg, false}; }
inline Arg out(int reg) { return {reg, true}; }

struct Symbol {
  Space space = kGlobal;
  i64 offset = 0;
};

class Decoder {
 public:
  Decoder(const Module& module, const std::map<std::string, u64>& globals);
  /// Throws Error with instruction and line where something is not supported.
  Program run(const Function& entry);

  // What follows is for the decoders of instructions.

  /// The instruction, without its guard.
  const std::vector<std::string>& op() const { return statement_->op; }
  const std::vector<Operand>& operands() const { return statement_->operands; }
  bool has(const std::string& modifier) const;
  /// The operand; throws where there are too few.
  const Operand& at(size_t k) const;
  size_t count() const { return statement_->operands.size(); }
  /// The k-th of the types that the instruction names, from the right; kNoType if there is none.
  Type type(size_t from_right = 0) const;
  std::vector<Type> types() const;
  /// How the register of an operand is held; that of `otherwise` if it is no register.
  Width width(const Operand& o, Type otherwise) const;
  int use(const Operand& o, Type as) { return use(o, as, width_of(as)); }
  int use(const Operand& o, Type as, Width width);
  int def(const Operand& o, Type as) { return def(o, width_of(as)); }
  int def(const Operand& o, Width width);
  int temporary(Width width);
  int constant(u64 bits, Width width);
  int special(Special which);
  /// The register of carries.
  int carry();
  Ins& emit(Handler run, const std::vector<Arg>& args);
  /// Base register (4 or 8 bytes), offset, and the space that a symbol gives.
  struct Address {
    int base;
    bool wide;
    i64 offset;
    Space space;
  };
  Address address(const Operand& o, Space space);
  /// The space that the instruction names; kGeneric if none.
  Space space() const;
  Rounding rounding() const;
  bool is_symbol(const Operand& o) const { return find_register(o.name) < 0; }
  i64 param_bytes() const { return program_.param_bytes; }
  bool find_symbol(const std::string& name, Symbol& out) const;
  void branch(const std::string& label);
  int label_table(const std::string& name);
  void leave();
  void call();
  void partial_barriers() { program_.partial_barriers = true; }
  void touches(int bytes) { program_.least_bytes = std::min(program_.least_bytes, bytes); }
  [[noreturn]] void unsupported(const std::string& why = "") const;

 private:
  struct Scope {
    int parent;
    std::unordered_map<std::string, int> registers;
    std::unordered_map<std::string, std::pair<Width, int>> families;  // %r<12>: first and count
    std::unordered_map<std::string, Symbol> symbols;
    std::unordered_map<std::string, i32> labels;
    std::unordered_map<std::string, const Statement*> targets;
  };
  struct Fix {
    size_t at;
    std::string label;
    int scope;
    int table, slot;  // -1: a branch
    const Statement* statement;
  };

  void lay_out_params(const Function& f);
  void lay_out_shared(const Function& entry);
  void body(const Function& f, int scope);
  void registers(const Statement& s);
  void variable(const Statement& s, const Function& f);
  void instruction(const Statement& s);
  void resolve_labels();
  int find_register(const std::string& name) const;
  std::string where() const;

  const Module& module_;
  const std::map<std::string, u64>& globals_;
  Program program_;
  std::vector<Reg> regs_;
  std::vector<std::vector<Arg>> args_;  // of each instruction; the guard is the last
  std::vector<Scope> scopes_;
  int scope_ = 0;
  std::vector<Fix> fixes_;
  std::map<std::pair<u64, int>, int> constants_;
  int specials_[kSpecials];
  int carry_ = -1;
  std::map<std::string, i64> shared_;  // function::variable
  std::vector<std::string> calls_;
  std::vector<std::vector<size_t>> returns_;  // branches to the end of each function under way
  const Statement* statement_ = nullptr;
  int guard_ = -1;
  bool inverted_ = false;
};

/// Give every register a row, sharing rows among those that never hold values at once.
void assign_rows(Program& program, std::vector<Reg>& regs,
                 const std::vector<std::vector<Arg>>& args);

}  // namespace sim
