// torch_ops.cc: the same calls as operators of Torch, through its dispatcher.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

void nop() {}
void ints(int64_t, int64_t, int64_t) {}
void text(std::string) {}
void tensors(const at::Tensor&, const at::Tensor&, const at::Tensor&) {}
at::Tensor like(const at::Tensor& x) { return at::empty_like(x); }
void fail() { TORCH_CHECK_VALUE(false, "a reason"); }

}  // namespace

TORCH_LIBRARY(kdsl_peer, m) {
  m.def("nop() -> ()", nop);
  m.def("ints(int a, int b, int c) -> ()", ints);
  m.def("text(str a) -> ()", text);
  m.def("tensors(Tensor a, Tensor b, Tensor c) -> ()");
  m.def("like(Tensor x) -> Tensor");
  m.def("fail() -> ()", fail);
}

TORCH_LIBRARY_IMPL(kdsl_peer, CPU, m) {
  m.impl("tensors", tensors);
  m.impl("like", like);
}
