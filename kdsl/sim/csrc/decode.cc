#include "decode.h"

#include <algorithm>

namespace sim {
namespace {

const OpTable& op_table() {
  static const OpTable table = [] {
    OpTable t;
    add_async_ops(t);
    add_atomic_ops(t);
    add_bit_ops(t);
    add_compare_ops(t);
    add_control_ops(t);
    add_convert_ops(t);
    add_float_ops(t);
    add_integer_ops(t);
    add_matrix_ops(t);
    add_memory_ops(t);
    add_move_ops(t);
    add_special_float_ops(t);
    add_warp_ops(t);
    return t;
  }();
  return table;
}

void collect_names(const Operand& o, std::set<std::string>& out) {
  if (!o.name.empty()) out.insert(o.name);
  for (const Operand& item : o.items) collect_names(item, out);
}

constexpr size_t kMaxCode = 4'000'000;
constexpr size_t kMaxDepth = 64;

}  // namespace

Decoder::Decoder(const Module& module, const std::map<std::string, u64>& globals)
    : module_(module), globals_(globals) {
  std::fill(specials_, specials_ + kSpecials, -1);
}

Program Decoder::run(const Function& entry) {
  program_.module = &module_;
  program_.name = entry.name;
  program_.params = entry.params;
  program_.max_threads = entry.max_threads;
  program_.exact_threads = entry.exact_threads;
  scopes_.push_back({-1, {}, {}, {}, {}, {}});
  lay_out_params(entry);
  lay_out_shared(entry);
  calls_.push_back(entry.name);
  body(entry, 0);
  guard_ = -1;
  Ins& end = emit(nullptr, {});
  end.kind = Ins::kExit;
  resolve_labels();
  assign_rows(program_, regs_, args_);
  return std::move(program_);
}

void Decoder::lay_out_params(const Function& f) {
  i64 offset = 0;
  for (const Variable& v : f.params) {
    const i64 size = bytes_of(type_named(v.type));
    offset = round_up(offset, v.align ? v.align : size);
    program_.param_offsets.push_back(offset);
    scopes_[0].symbols[v.name] = {kParam, offset};
    offset += size * v.count;
  }
  program_.param_bytes = offset;
}

/// Static shared memory of the functions that the kernel reaches; dynamic memory follows it.
void Decoder::lay_out_shared(const Function& entry) {
  std::set<std::string> names, seen;
  std::vector<const Function*> work{&entry};
  i64 offset = kSharedBase;
  while (!work.empty()) {
    const Function& f = *work.back();
    work.pop_back();
    if (!seen.insert(f.name).second) continue;
    std::set<std::string> own;
    for (const Statement& s : f.body) {
      for (const Operand& o : s.operands) collect_names(o, own);
      if (s.kind != Statement::kVariable || s.variable.space != "shared") continue;
      const Variable& v = s.variable;
      const i64 size = bytes_of(type_named(v.type));
      offset = round_up(offset, v.align ? v.align : size);
      shared_[f.name + "::" + v.name] = offset;
      offset += size * v.count;
    }
    for (const std::string& name : own) {
      const auto it = module_.functions.find(name);
      if (it != module_.functions.end()) work.push_back(&it->second);
    }
    names.insert(own.begin(), own.end());
  }
  i64 align = 16;
  for (const Variable& v : module_.variables) {
    if (v.space != "shared" || !names.count(v.name)) continue;
    if (v.external) {
      align = std::max(align, v.align);
      continue;
    }
    const i64 size = bytes_of(type_named(v.type));
    offset = round_up(offset, v.align ? v.align : size);
    scopes_[0].symbols[v.name] = {kShared, offset};
    offset += size * v.count;
  }
  program_.static_shared = round_up(offset, align);
  for (const Variable& v : module_.variables) {
    if (v.space == "shared" && v.external) {
      scopes_[0].symbols[v.name] = {kShared, program_.static_shared};
    }
  }
}

void Decoder::body(const Function& f, int scope) {
  const int before = scope_;
  scope_ = scope;
  returns_.emplace_back();
  for (const Statement& s : f.body) {
    statement_ = &s;
    switch (s.kind) {
      case Statement::kOpen:
        scopes_.push_back({scope_, {}, {}, {}, {}, {}});
        scope_ = static_cast<int>(scopes_.size()) - 1;
        break;
      case Statement::kClose:
        scope_ = scopes_[scope_].parent;
        break;
      case Statement::kRegisters:
        registers(s);
        break;
      case Statement::kVariable:
        variable(s, f);
        break;
      case Statement::kLabel:
        scopes_[scope_].labels[s.op[0]] = static_cast<i32>(program_.code.size());
        break;
      case Statement::kTargets:
        scopes_[scope_].targets[s.op[0]] = &s;
        break;
      case Statement::kCode:
        instruction(s);
        break;
    }
  }
  // A call is the callee's body in place: its `ret` goes to where the body ends.
  for (size_t at : returns_.back()) {
    program_.code[at].target = static_cast<i32>(program_.code.size());
  }
  returns_.pop_back();
  scope_ = before;
}

void Decoder::registers(const Statement& s) {
  const Type type = s.op.empty() ? kNoType : type_named(s.op.back());
  if (type == kNoType || type == kB128 || s.op.size() > 1) unsupported("a register type");
  const Width width = width_of(type);
  for (const Operand& o : s.operands) {
    const int first = static_cast<int>(regs_.size());
    const int count = o.bits ? static_cast<int>(o.bits) : 1;
    for (int k = 0; k < count; k++) regs_.push_back({width});
    if (o.bits) {
      scopes_[scope_].families[o.name] = {width, first};
    } else {
      scopes_[scope_].registers[o.name] = first;
    }
  }
}

void Decoder::variable(const Statement& s, const Function& f) {
  const Variable& v = s.variable;
  const i64 size = bytes_of(type_named(v.type));
  if (v.space == "shared") {
    scopes_[scope_].symbols[v.name] = {kShared, shared_.at(f.name + "::" + v.name)};
  } else if (v.space == "local" || v.space == "param") {
    program_.local_bytes = round_up(program_.local_bytes, v.align ? v.align : size);
    scopes_[scope_].symbols[v.name] = {kLocal, program_.local_bytes};
    program_.local_bytes = round_up(program_.local_bytes + size * std::max<i64>(v.count, 1), 16);
  } else {
    unsupported("a variable of ." + v.space + " inside of a function");
  }
}

void Decoder::instruction(const Statement& s) {
  inverted_ = s.guard_inverted;
  guard_ = -1;
  if (!s.guard.empty()) {
    guard_ = find_register(s.guard);
    if (guard_ < 0 || regs_[guard_].width != kBit) unsupported("the guard is no predicate");
  }
  const auto it = op_table().find(s.op.empty() ? "" : s.op[0]);
  if (it == op_table().end()) unsupported();
  it->second(*this);
  if (program_.code.size() > kMaxCode) unsupported("the kernel is too large with calls inlined");
}

std::string Decoder::where() const {
  const Place& p = module_.places[statement_->place];
  std::string out = "PTX line " + std::to_string(statement_->line);
  const auto file = module_.files.find(p.file);
  if (file != module_.files.end()) out += " (" + file->second + ":" + std::to_string(p.line) + ")";
  return out;
}

void Decoder::unsupported(const std::string& why) const {
  std::string text = statement_->text;
  if (text.empty()) text = statement_->op.empty() ? statement_->variable.name : statement_->op[0];
  throw Error("kernel " + program_.name + ": the simulator does not know `" + text + "` at " +
              where() + (why.empty() ? "" : ": " + why));
}

bool Decoder::has(const std::string& modifier) const {
  const auto& parts = op();
  return std::find(parts.begin() + 1, parts.end(), modifier) != parts.end();
}

const Operand& Decoder::at(size_t k) const {
  if (k >= operands().size()) unsupported("an operand is missing");
  return operands()[k];
}

std::vector<Type> Decoder::types() const {
  std::vector<Type> out;
  for (size_t k = 1; k < op().size(); k++) {
    const Type t = type_named(op()[k]);
    if (t != kNoType) out.push_back(t);
  }
  return out;
}

Type Decoder::type(size_t from_right) const {
  const std::vector<Type> all = types();
  return from_right < all.size() ? all[all.size() - 1 - from_right] : kNoType;
}

Rounding Decoder::rounding() const {
  if (has("rz") || has("rzi")) return kZero;
  if (has("rm") || has("rmi")) return kDown;
  if (has("rp") || has("rpi")) return kUp;
  if (has("rna")) return kAway;
  return kNearest;
}

Space Decoder::space() const {
  for (const std::string& part : op()) {
    const std::string name = part.substr(0, part.find("::"));
    if (name == "global" || name == "const") return kGlobal;
    if (name == "shared") return kShared;
    if (name == "local") return kLocal;
    if (name == "param") return kParam;
  }
  return kGeneric;
}

int Decoder::find_register(const std::string& name) const {
  size_t digits = name.size();
  while (digits > 0 && isdigit(static_cast<u8>(name[digits - 1]))) digits--;
  const std::string family = name.substr(0, digits);
  for (int s = scope_; s >= 0; s = scopes_[s].parent) {
    const auto own = scopes_[s].registers.find(name);
    if (own != scopes_[s].registers.end()) return own->second;
    if (digits == name.size()) continue;
    const auto many = scopes_[s].families.find(family);
    if (many != scopes_[s].families.end()) {
      return many->second.second + atoi(name.c_str() + digits);
    }
  }
  return -1;
}

bool Decoder::find_symbol(const std::string& name, Symbol& out) const {
  for (int s = scope_; s >= 0; s = scopes_[s].parent) {
    const auto it = scopes_[s].symbols.find(name);
    if (it != scopes_[s].symbols.end()) {
      out = it->second;
      return true;
    }
  }
  // A callee's scope has no parent: what the module declares is visible everywhere.
  const auto shared = scopes_[0].symbols.find(name);
  if (shared != scopes_[0].symbols.end() && shared->second.space == kShared) {
    out = shared->second;
    return true;
  }
  const auto global = globals_.find(name);
  if (global == globals_.end()) return false;
  out = {kGlobal, static_cast<i64>(global->second)};
  return true;
}

Width Decoder::width(const Operand& o, Type otherwise) const {
  const int reg = o.kind == Operand::kName ? find_register(o.name) : -1;
  return reg >= 0 ? regs_[reg].width : width_of(otherwise);
}

int Decoder::temporary(Width width) {
  regs_.push_back({width});
  return static_cast<int>(regs_.size()) - 1;
}

int Decoder::constant(u64 bits, Width width) {
  if (width == kWord) bits = static_cast<u32>(bits);
  if (width == kBit) bits = bits != 0;
  auto [it, fresh] = constants_.emplace(std::make_pair(bits, static_cast<int>(width)), 0);
  if (fresh) {
    it->second = static_cast<int>(regs_.size());
    regs_.push_back({width, Reg::kConstant, bits});
  }
  return it->second;
}

int Decoder::special(Special which) {
  if (specials_[which] < 0) {
    specials_[which] = static_cast<int>(regs_.size());
    regs_.push_back({kWord, Reg::kSpecial, which});
  }
  return specials_[which];
}

int Decoder::carry() {
  if (carry_ < 0) carry_ = temporary(kWord);
  return carry_;
}

Ins& Decoder::emit(Handler run, const std::vector<Arg>& args) {
  args_.push_back(args);
  Ins i;
  i.run = run;
  i.operands = static_cast<u8>(args.size());
  i.inverted = inverted_;
  i.guard = guard_;  // a register until rows are assigned
  if (guard_ >= 0) args_.back().push_back(in(guard_));
  program_.code.push_back(i);
  Origin origin;
  if (statement_) origin = {statement_->place, statement_->line, statement_->text};
  program_.origins.push_back(std::move(origin));
  return program_.code.back();
}

void Decoder::resolve_labels() {
  for (const Fix& fix : fixes_) {
    i32 target = -1;
    for (int s = fix.scope; s >= 0 && target < 0; s = scopes_[s].parent) {
      const auto it = scopes_[s].labels.find(fix.label);
      if (it != scopes_[s].labels.end()) target = it->second;
    }
    statement_ = fix.statement;
    if (target < 0) unsupported("no label `" + fix.label + "`");
    if (fix.table < 0) {
      program_.code[fix.at].target = target;
    } else {
      program_.tables[fix.table][fix.slot] = target;
    }
  }
}

void Decoder::branch(const std::string& label) {
  fixes_.push_back({program_.code.size(), label, scope_, -1, 0, statement_});
  emit(nullptr, {}).kind = Ins::kBranch;
}

int Decoder::label_table(const std::string& name) {
  const Statement* targets = nullptr;
  for (int s = scope_; s >= 0 && !targets; s = scopes_[s].parent) {
    const auto it = scopes_[s].targets.find(name);
    if (it != scopes_[s].targets.end()) targets = it->second;
  }
  if (!targets) unsupported("no .branchtargets `" + name + "` before it");
  const int table = static_cast<int>(program_.tables.size());
  program_.tables.emplace_back(targets->operands.size(), -1);
  for (size_t k = 0; k < targets->operands.size(); k++) {
    fixes_.push_back(
        {0, targets->operands[k].name, scope_, table, static_cast<int>(k), statement_});
  }
  return table;
}

void Decoder::leave() {
  if (returns_.size() == 1) {
    emit(nullptr, {}).kind = Ins::kExit;
    return;
  }
  returns_.back().push_back(program_.code.size());
  emit(nullptr, {}).kind = Ins::kBranch;
}

void Decoder::call() {
  size_t k = 0;
  const bool returns = at(0).kind == Operand::kList;
  const std::vector<Operand> results = returns ? at(k++).items : std::vector<Operand>();
  const std::string name = at(k++).name;
  const std::vector<Operand> given = k < count() ? at(k).items : std::vector<Operand>();
  const auto it = module_.functions.find(name);
  if (it == module_.functions.end()) unsupported("a call through a pointer");
  const Function& f = it->second;
  if (!f.defined) unsupported("no function `" + name + "` in the module");
  if (std::find(calls_.begin(), calls_.end(), name) != calls_.end()) unsupported("recursion");
  if (calls_.size() > kMaxDepth) unsupported("calls too deep");
  if (results.size() != f.returns.size() || given.size() != f.params.size()) {
    unsupported("`" + name + "` takes " + std::to_string(f.params.size()) + " arguments");
  }
  size_t skip = 0;
  const bool guarded = guard_ >= 0;
  if (guarded) {  // around the callee's body
    inverted_ = !inverted_;
    skip = program_.code.size();
    emit(nullptr, {}).kind = Ins::kBranch;
  }
  guard_ = -1;
  Scope inner{-1, {}, {}, {}, {}, {}};
  const auto bind = [&](const Variable& formal, const Operand& actual) {
    Symbol symbol;
    const int reg = find_register(actual.name);
    if (reg >= 0) {
      inner.registers[formal.name] = reg;
    } else if (find_symbol(actual.name, symbol)) {
      inner.symbols[formal.name] = symbol;
    } else {
      unsupported("the argument `" + actual.name + "`");
    }
  };
  for (size_t n = 0; n < given.size(); n++) bind(f.params[n], given[n]);
  for (size_t n = 0; n < results.size(); n++) bind(f.returns[n], results[n]);
  scopes_.push_back(std::move(inner));
  calls_.push_back(name);
  const Statement* here = statement_;
  body(f, static_cast<int>(scopes_.size()) - 1);
  statement_ = here;
  calls_.pop_back();
  if (guarded) program_.code[skip].target = static_cast<i32>(program_.code.size());
}

}  // namespace sim
