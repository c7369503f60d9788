// pybind.cc: the same calls through pybind11, the GIL released.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;
using Array = py::array_t<float>;

PYBIND11_MODULE(peer_pybind, m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def("nop", [] {}, release);
  m.def("ints", [](int64_t, int64_t, int64_t) {}, release);
  m.def("text", [](const std::string&) {}, release);
  m.def("arrays", [](const Array&, const Array&, const Array&) {}, release);
  m.def("repeat", [](int64_t n, const py::function& f) {
    for (int64_t i = 0; i < n; ++i) f();
  });
  m.def("fail", [] { throw py::value_error("a reason"); });
}
