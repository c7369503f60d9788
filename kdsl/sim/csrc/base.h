// base.h: names of fixed-width integers and the one error type of the simulator.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace sim {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

constexpr u32 kAllLanes = ~0u;

/// Text that the simulator cannot run; `what()` names the instruction and its line.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The bits of one value read as another type of the same size.
template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline i64 round_up(i64 value, i64 step) { return (value + step - 1) / step * step; }

}  // namespace sim
