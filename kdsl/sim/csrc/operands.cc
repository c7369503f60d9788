// Operands of an instruction: registers, special registers, numbers, addresses.
#include "decode.h"

namespace sim {
namespace {

bool special_named(const std::string& name, Special& out) {
  static const std::map<std::string, int> kVectors = {
      {"%tid", kTid}, {"%ntid", kNtid}, {"%ctaid", kCtaid}, {"%nctaid", kNctaid}};
  static const std::map<std::string, Special> kNames = {{"%laneid", kLane},
                                                        {"%warpid", kWarp},
                                                        {"%nwarpid", kWarps},
                                                        {"%smid", kSm},
                                                        {"%nsmid", kSms},
                                                        {"%gridid", kGrid},
                                                        {"%lanemask_eq", kLaneEq},
                                                        {"%lanemask_le", kLaneLe},
                                                        {"%lanemask_lt", kLaneLt},
                                                        {"%lanemask_ge", kLaneGe},
                                                        {"%lanemask_gt", kLaneGt},
                                                        {"%dynamic_smem_size", kDynamicShared},
                                                        {"%total_smem_size", kTotalShared},
                                                        {"%cluster_ctarank", kAlways0},
                                                        {"%cluster_nctarank", kAlways1},
                                                        {"%clusterid.x", kCtaid},
                                                        {"%nclusterid.x", kNctaid},
                                                        {"%cluster_ctaid.x", kAlways0},
                                                        {"%cluster_nctaid.x", kAlways1}};
  const auto one = kNames.find(name);
  if (one != kNames.end()) {
    out = one->second;
    return true;
  }
  const size_t dot = name.find('.');
  if (dot == std::string::npos || dot + 2 != name.size()) return false;
  const auto vector = kVectors.find(name.substr(0, dot));
  const int axis = name[dot + 1] - 'x';
  if (vector == kVectors.end() || axis < 0 || axis > 2) return false;
  out = static_cast<Special>(vector->second + axis);
  return true;
}

void invert(Exec& x, const Ins& i, u32 m) {
  u32* to = x.row<u32>(i.row[0]);
  *to = (*to & ~m) | (~*x.row<u32>(i.row[1]) & m);
}

}  // namespace

int Decoder::use(const Operand& o, Type as, Width width) {
  if (o.kind == Operand::kInt) {
    // `add.f32 %f1, %f2, 1` does not exist, but `mov.f32 %f1, 0` is written by hand.
    if (as == kF32)
      return constant(bits_as<u32>(static_cast<float>(static_cast<i64>(o.bits))), width);
    if (as == kF64)
      return constant(bits_as<u64>(static_cast<double>(static_cast<i64>(o.bits))), width);
    return constant(o.bits, width);
  }
  if (o.kind == Operand::kFloat) {
    if (as == kF16) return constant(to_half(bits_as<double>(o.bits)).bits, width);
    if (as == kBf16) return constant(to_bf16(bits_as<double>(o.bits)).bits, width);
    return constant(width == kLong ? o.bits : static_cast<u64>(o.offset), width);
  }
  if (o.kind != Operand::kName) unsupported("an operand of another kind is needed");
  const int reg = find_register(o.name);
  if (reg >= 0) {
    if (regs_[reg].width != width || o.offset != 0) {
      static const char* const kWidths[] = {"a predicate", "of up to 32 bits", "of 64 bits"};
      unsupported("`" + o.name + "` is " + kWidths[regs_[reg].width] + ", needed is one that is " +
                  kWidths[width]);
    }
    if (!o.inverted) return reg;
    const int other = temporary(kBit);
    emit(invert, {out(other), in(reg)});
    return other;
  }
  Special which;
  if (special_named(o.name, which)) {
    if (width == kWord) return special(which);
    unsupported("`" + o.name + "` is of 32 bits");
  }
  if (o.name == "WARP_SZ") return constant(kLanes, width);
  Symbol symbol;
  if (!find_symbol(o.name, symbol)) unsupported("no register or variable `" + o.name + "`");
  return constant(static_cast<u64>(symbol.offset + o.offset), width);
}

int Decoder::def(const Operand& o, Width width) {
  if (o.kind == Operand::kSink) return temporary(width);
  const int reg = o.kind == Operand::kName ? find_register(o.name) : -1;
  if (reg < 0) unsupported("the result is no register");
  if (regs_[reg].width != width) unsupported("`" + o.name + "` has another width than the result");
  return reg;
}

Decoder::Address Decoder::address(const Operand& o, Space space) {
  if (o.kind != Operand::kMemory || o.items.size() != 1) unsupported("an address in [] is needed");
  const Operand& base = o.items[0];
  if (base.kind == Operand::kInt) return {constant(base.bits, kLong), true, 0, space};
  const int reg = find_register(base.name);
  if (reg >= 0) return {reg, regs_[reg].width == kLong, o.offset, space};
  Symbol symbol;
  if (!find_symbol(base.name, symbol)) unsupported("no register or variable `" + base.name + "`");
  // A callee's parameter is memory of the thread, though the instruction says `.param`.
  return {constant(0, kLong), true, symbol.offset + o.offset, symbol.space};
}

}  // namespace sim
