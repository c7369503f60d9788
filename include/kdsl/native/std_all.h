// kdsl/native/std_all.h: the headers of the C++ library that the official TVM FFI headers include.
//
// Nothing of kdsl's includes it: it costs a compiler more than all of kdsl's headers. It is for
// files that were written against the official headers and rely on what those bring in:
// `-include kdsl/native/std_all.h`.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>
