// kdsl/ffi/cpu.h: what this CPU can do, asked of the CPU itself, and the best variant it can run.
#pragma once

#include <kdsl/ffi/libc.h>

namespace kdsl {

// Levels of instruction sets; each contains those before it on its architecture.
enum CpuLevel { kBaseline, kAvx2, kAvx512 };

/// One compiled form of a module's kernels.
struct Variant {
  const char* name;
  CpuLevel needs;
};

#if defined(__x86_64__)
struct CpuId {
  uint32_t eax, ebx, ecx, edx;
};

inline CpuId cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  CpuId id;
  __asm__ volatile("cpuid"
                   : "=a"(id.eax), "=b"(id.ebx), "=c"(id.ecx), "=d"(id.edx)
                   : "a"(leaf), "c"(subleaf));
  return id;
}

/// Which register sets the system saves when it switches threads.
inline uint64_t xgetbv() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

inline CpuLevel cpu_level() {
  constexpr uint32_t kOsxsave = 1u << 27, kAvxBit = 1u << 28, kFma = 1u << 12, kF16c = 1u << 29,
                     kMovbe = 1u << 22;
  constexpr uint32_t kBmi1 = 1u << 3, kAvx2Bit = 1u << 5, kBmi2 = 1u << 8;
  constexpr uint32_t kLzcnt = 1u << 5;
  constexpr uint32_t kAvx512Bits = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  constexpr uint32_t kAvxLeaf = kOsxsave | kAvxBit | kFma | kF16c | kMovbe;
  constexpr uint64_t kYmmState = 0x06, kZmmState = 0xe6;
  auto has = [](uint64_t bits, uint64_t wanted) { return (bits & wanted) == wanted; };

  if (cpuid(0).eax < 7 || !has(cpuid(1).ecx, kAvxLeaf)) return kBaseline;
  const uint64_t saved = xgetbv();
  const uint32_t leaf7 = cpuid(7).ebx;
  if (!has(saved, kYmmState) || !has(leaf7, kBmi1 | kAvx2Bit | kBmi2)) return kBaseline;
  if (!has(cpuid(0x80000001u).ecx, kLzcnt)) return kBaseline;
  return has(saved, kZmmState) && has(leaf7, kAvx512Bits) ? kAvx512 : kAvx2;
}
#else
inline CpuLevel cpu_level() { return kBaseline; }
#endif

/// Index of the best variant for this CPU; -1 when it can run none. `variants` go from the most
/// demanding down. KDSL_VARIANT names a lesser one to use instead, e.g. to compare.
template <int N>
int best_variant(const Variant (&variants)[N]) {
  const CpuLevel level = cpu_level();
  const char* asked = kdsl_getenv("KDSL_VARIANT");
  auto is_asked = [&](const char* name) {
    const char* c = asked;
    while (c && *c && *c == *name) ++c, ++name;
    return c && !*c && !*name;
  };
  int best = -1;
  for (int i = N - 1; i >= 0; --i) {
    if (variants[i].needs > level) continue;
    best = i;
    if (is_asked(variants[i].name)) return i;
  }
  return best;
}

}  // namespace kdsl
