#include "device.h"

#include <cstdlib>
#include <map>

namespace sim {
namespace {

struct Meaning {
  const char *name, *text;
};

const std::map<int, Meaning>& meanings() {
  static const std::map<int, Meaning> all = {
      {kSuccess, {"CUDA_SUCCESS", "no error"}},
      {kInvalidValue, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {kOutOfMemory, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {kNotInitialized, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {kInvalidDevice, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
      {kInvalidImage, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
      {kInvalidContext, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {kNoBinary, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"}},
      {kInvalidPtx, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
      {kInvalidHandle, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {kNotFound, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {kNotReady, {"CUDA_ERROR_NOT_READY", "device not ready"}},
      {kIllegalAddress, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"}},
      {kLaunchOutOfResources,
       {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
      {kAssert, {"CUDA_ERROR_ASSERT", "device-side assert triggered"}},
      {kMisaligned, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
      {kLaunchFailed, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
      {kNotSupported, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}}};
  return all;
}

thread_local int last_result;
thread_local std::string last_text;

}  // namespace

const char* result_name(int result) {
  const auto it = meanings().find(result);
  return it == meanings().end() ? nullptr : it->second.name;
}

const char* result_text_of(int result) {
  if (result == last_result && !last_text.empty()) return last_text.c_str();
  const auto it = meanings().find(result);
  return it == meanings().end() ? nullptr : it->second.text;
}

Result fail(Result result, const std::string& text) {
  last_result = result;
  last_text = text;
  return result;
}

int architecture() {
  const char* asked = getenv("KDSL_SIM_ARCH");
  if (!asked) return 80;
  const std::string text = asked;
  const int number = atoi(text.c_str() + (text.rfind("sm_", 0) == 0 ? 3 : 0));
  return number >= 50 && number < 200 ? number : 80;
}

u32 most_shared() {
  switch (architecture()) {
    case 75:
      return 64 * 1024;
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * 1024;
    default:
      return 227 * 1024;
  }
}

bool attribute(int number, int& value) {
  static const std::map<int, int> fixed = {{1, 1024},  // threads of a block
                                           {2, 1024},  // its size in x, y, z
                                           {3, 1024},      {4, 64},    {5, 2147483647},  // a grid's
                                           {6, 65535},     {7, 65535}, {8, kDefaultShared},
                                           {9, 65536},      // constant memory
                                           {10, 32},        // warp
                                           {12, 65536},     // registers of a block
                                           {13, 1410000},   // clock, kHz
                                           {15, 1},         // overlaps copies and kernels
                                           {16, 108},       // multiprocessors
                                           {18, 0},         // integrated
                                           {19, 1},         // maps host memory
                                           {31, 1},         // concurrent kernels
                                           {36, 1593000},   // memory clock
                                           {37, 5120},      // bus width
                                           {38, 40 << 20},  // L2
                                           {39, 2048},      // threads of a multiprocessor
                                           {41, 1},         // unified addressing
                                           {82, 65536},     // registers of a multiprocessor
                                           {106, 32},       // blocks of a multiprocessor
                                           {115, 1}};       // memory pools
  switch (number) {
    case 75:
      value = architecture() / 10;
      return true;
    case 76:
      value = architecture() % 10;
      return true;
    case 97:
      value = static_cast<int>(most_shared());
      return true;
    case 81:
      value = static_cast<int>(most_shared()) + 1024;
      return true;
    default:
      break;
  }
  const auto it = fixed.find(number);
  // What is not known is not there: the driver says 0 for most features.
  value = it == fixed.end() ? 0 : it->second;
  return number > 0 && number < 160;
}

}  // namespace sim
