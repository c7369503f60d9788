// Rows for registers: a warp's register file stays small enough for the processor's caches when
// registers share rows. PTX names a new register for almost every value; few live at a time.
#include <algorithm>
#include <queue>

#include "decode.h"

namespace sim {
namespace {

constexpr int kRowBytes[] = {4, 128, 256};

using Bits = std::vector<u64>;

/// From where to where a register may hold a value that is still needed. Instruction `i` reads at
/// 2 i and writes at 2 i + 1.
struct Life {
  i64 begin = INT64_MAX, end = -1;
  void cover(i64 at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

struct Piece {  // a basic block
  i32 begin, end;
  std::vector<int> next;
  Bits used, defined, live_in, live_out;
};

std::vector<i32> targets_of(const Program& p, const Ins& i) {
  if (i.kind == Ins::kBranch) return {i.target};
  if (i.kind == Ins::kTable) return p.tables[i.imm[0]];
  return {};
}

class Lives {
 public:
  Lives(const Program& p, size_t regs, const std::vector<std::vector<Arg>>& args)
      : program_(p), args_(args), words_((regs + 63) / 64), lives_(regs) {
    cut();
    flow();
    cover();
  }
  const std::vector<Life>& get() const { return lives_; }

 private:
  void cut() {
    const i32 n = static_cast<i32>(program_.code.size());
    std::vector<u8> starts(n + 1, 0);
    starts[0] = 1;
    for (i32 k = 0; k < n; k++) {
      const Ins& i = program_.code[k];
      for (i32 t : targets_of(program_, i)) starts[t] = 1;
      if (i.kind == Ins::kBranch || i.kind == Ins::kTable || i.kind == Ins::kExit) {
        starts[k + 1] = 1;
      }
    }
    std::vector<int> piece_of(n + 1, -1);
    for (i32 k = 0; k < n; k++) {
      if (starts[k]) pieces_.push_back({k, k, {}, {}, {}, {}, {}});
      piece_of[k] = static_cast<int>(pieces_.size()) - 1;
      pieces_.back().end = k + 1;
    }
    for (Piece& p : pieces_) {
      const Ins& last = program_.code[p.end - 1];
      for (i32 t : targets_of(program_, last)) p.next.push_back(piece_of[t]);
      const bool falls = last.guard >= 0 || last.kind == Ins::kPlain || last.kind == Ins::kBarrier;
      if (falls && p.end < n) p.next.push_back(piece_of[p.end]);
      p.used = p.defined = p.live_in = p.live_out = Bits(words_, 0);
      for (i32 k = p.begin; k < p.end; k++) {
        for (const Arg& a : args_[k]) {
          // Where a guard is false the old value stays: as if it were read.
          const bool reads = !a.defined || program_.code[k].guard >= 0;
          if (reads && !test(p.defined, a.reg)) set(p.used, a.reg);
        }
        for (const Arg& a : args_[k]) {
          if (a.defined && program_.code[k].guard < 0) set(p.defined, a.reg);
        }
      }
    }
  }

  void flow() {
    std::vector<std::vector<int>> before(pieces_.size());
    for (size_t k = 0; k < pieces_.size(); k++) {
      for (int n : pieces_[k].next) before[n].push_back(static_cast<int>(k));
    }
    std::vector<int> work;
    std::vector<u8> waiting(pieces_.size(), 1);
    for (size_t k = 0; k < pieces_.size(); k++) work.push_back(static_cast<int>(k));
    while (!work.empty()) {
      Piece& p = pieces_[work.back()];
      waiting[work.back()] = 0;
      const int self = work.back();
      work.pop_back();
      bool changed = false;
      for (size_t w = 0; w < words_; w++) {
        u64 live = 0;
        for (int n : p.next) live |= pieces_[n].live_in[w];
        p.live_out[w] = live;
        const u64 enters = p.used[w] | (live & ~p.defined[w]);
        changed |= enters != p.live_in[w];
        p.live_in[w] = enters;
      }
      if (!changed) continue;
      for (int b : before[self]) {
        if (!waiting[b]) work.push_back(b), waiting[b] = 1;
      }
    }
  }

  void cover() {
    for (const Piece& p : pieces_) {
      for (size_t w = 0; w < words_; w++) {
        each(p.live_in[w], w, [&](size_t reg) { lives_[reg].cover(2 * i64{p.begin}); });
        each(p.live_out[w], w, [&](size_t reg) { lives_[reg].cover(2 * i64{p.end}); });
      }
      for (i32 k = p.begin; k < p.end; k++) {
        const auto outs =
            std::count_if(args_[k].begin(), args_[k].end(), [](const Arg& a) { return a.defined; });
        for (const Arg& a : args_[k]) {
          lives_[a.reg].cover(2 * i64{k} + (a.defined ? 1 : 0));
          // Of several results, one may be written before another operand is read.
          if (a.defined && outs > 1) lives_[a.reg].cover(2 * i64{k});
        }
      }
    }
  }

  static bool test(const Bits& bits, int reg) { return bits[reg / 64] >> (reg % 64) & 1; }
  static void set(Bits& bits, int reg) { bits[reg / 64] |= 1ull << (reg % 64); }
  template <class F>
  static void each(u64 bits, size_t word, F f) {
    for (; bits; bits &= bits - 1) f(word * 64 + __builtin_ctzll(bits));
  }

  const Program& program_;
  const std::vector<std::vector<Arg>>& args_;
  size_t words_;
  std::vector<Life> lives_;
  std::vector<Piece> pieces_;
};

}  // namespace

void assign_rows(Program& program, std::vector<Reg>& regs,
                 const std::vector<std::vector<Arg>>& args) {
  i64 file = 0;
  std::fill(program.special, program.special + kSpecials, -1);
  for (Reg& r : regs) {
    if (r.kind == Reg::kSpecial) {
      r.offset = program.special[r.value] = static_cast<i32>(file);
      file += kRowBytes[kWord];
    } else if (r.kind == Reg::kConstant) {
      r.offset = static_cast<i32>(program.constant_bytes | i64{0x80000000});
      const u8 bytes = r.width == kBit ? 1 : r.width == kWord ? 4 : 8;
      program.constants.push_back({r.offset, bytes, r.value});
      program.constant_bytes += r.width == kBit ? 64 : kRowBytes[r.width];
    }
  }
  const std::vector<Life> lives = Lives(program, regs.size(), args).get();
  std::vector<int> order;
  for (size_t k = 0; k < regs.size(); k++) {
    if (regs[k].kind == Reg::kFree && lives[k].end >= 0) order.push_back(static_cast<int>(k));
  }
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return lives[a].begin < lives[b].begin; });
  // Words and longs have rows of their own, so that a row is written in the order it is read.
  using Busy = std::pair<i64, i32>;
  std::priority_queue<Busy, std::vector<Busy>, std::greater<Busy>> busy[3];
  std::vector<i32> free_rows[3];
  for (int reg : order) {
    Reg& r = regs[reg];
    auto& queue = busy[r.width];
    while (!queue.empty() && queue.top().first < lives[reg].begin) {
      free_rows[r.width].push_back(queue.top().second);
      queue.pop();
    }
    if (free_rows[r.width].empty()) {
      // Predicates stand a word each, rows on 64 bytes.
      if (r.width != kBit) file = round_up(file, 64);
      free_rows[r.width].push_back(static_cast<i32>(file));
      file += kRowBytes[r.width];
    }
    r.offset = free_rows[r.width].back();
    free_rows[r.width].pop_back();
    queue.push({lives[reg].end, r.offset});
  }
  program.file_bytes = file;
  size_t total = 0;
  for (const auto& list : args) total += list.size();
  program.pool.reserve(total);
  for (size_t k = 0; k < program.code.size(); k++) {
    Ins& i = program.code[k];
    i.row = program.pool.data() + program.pool.size();
    for (int n = 0; n < i.operands; n++) program.pool.push_back(regs[args[k][n].reg].offset);
    if (i.guard >= 0) i.guard = regs[i.guard].offset;
  }
}

}  // namespace sim
