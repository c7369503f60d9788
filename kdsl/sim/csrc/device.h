// device.h: the device that the driver shows: its architecture, its limits, errors and their texts.
#pragma once
#include <string>

#include "base.h"

namespace sim {

/// Those of CUresult that the simulator gives.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kAssert = 710,
  kMisaligned = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
};

/// The name of a result ("CUDA_ERROR_NOT_FOUND"), or null.
const char* result_name(int result);
/// What it means; for the last failure of this thread, what really happened.
const char* result_text_of(int result);
/// Fail with a text that `result_text_of` gives from then on.
Result fail(Result result, const std::string& text);

/// 80 for sm_80: KDSL_SIM_ARCH, or that.
int architecture();
/// Bytes of shared memory that a block may ask for.
u32 most_shared();
/// A device attribute by CUdevice_attribute's number; false: not known.
bool attribute(int number, int& value);

constexpr u32 kDefaultShared = 48 * 1024;  // without opting in to more
constexpr u64 kDeviceMemory = 64ull << 30;

}  // namespace sim
