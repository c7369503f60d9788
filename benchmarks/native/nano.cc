// nano.cc: the same calls through nanobind, the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using Array = nb::ndarray<const float, nb::device::cpu>;

NB_MODULE(peer_nano, m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  m.def("nop", [] {}, Release());
  m.def("ints", [](int64_t, int64_t, int64_t) {}, Release());
  m.def("text", [](const std::string&) {}, Release());
  m.def("arrays", [](const Array&, const Array&, const Array&) {}, Release());
  m.def("repeat", [](int64_t n, const nb::callable& f) {
    for (int64_t i = 0; i < n; ++i) f();
  });
  m.def("fail", [] { throw nb::value_error("a reason"); });
}
