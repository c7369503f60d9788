// host.cc: attention from C++: the library is opened, calls have types, errors are thrown.
//   python ../attention/export.py . && g++ -std=c++17 host.cc -o host -ldl && ./host out.bin
#include <cstdio>
#include <functional>
#include <vector>

#include "attention.hpp"

using attention_module::Module;
using kdsl_host::Tensor;
using kdsl_host::View;

/// Prints why a call fails; whether it did.
static bool refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const kdsl_host::Error& error) {
    std::printf("%s: %s\n", error.kind.c_str(), error.what());
    return true;
  }
  return std::printf("accepted\n"), false;
}

int main(int argc, char** argv) {
  const std::vector<int64_t> shape = {1, 4, 8, 64};
  const int count = 4 * 8 * 64;
  std::vector<float> q(count), k(count), v(count), o(count), lse(4 * 8);
  for (int i = 0; i < count; ++i) {
    q[i] = static_cast<float>(i % 7) / 7, k[i] = static_cast<float>(i % 5) / 5;
    v[i] = static_cast<float>(i % 3);
  }
  const View qs(q.data(), shape), ks(k.data(), shape), vs(v.data(), shape);

  try {
    const Module module("./attention.so");
    module.attention(qs, ks, vs, 0.125, View(o.data(), shape), {lse.data(), {1, 4, 8}}, true);
    std::printf("o[0, 0, 1, :3] = %.6f %.6f %.6f\n", o[64], o[65], o[66]);

    const auto [made, sums] = module.attention(qs, ks, vs, 0.125, true);
    std::printf("made again: %s, %zu sums\n",
                made.data<float>()[64] == o[64] ? "the same" : "different", sums.size());
    // What one call has made goes into the next.
    const Tensor chained = module.attention(made, ks, vs, 0.125)[0];
    std::printf("chained: %zu elements\n", chained.size());

    bool ok = refused([&] { module.attention(qs, ks, vs, -1.0); });
    ok &= refused([&] { module.attention(qs, {k.data(), {1, 4, 64}}, vs, 0.125); });
    ok &= refused([&] { module.attention(qs, {nullptr, KDSL_F32, shape}, vs, 0.125); });
    ok &= refused([&] { made.data<double>(); });
    ok &= refused([&] { module.function("softmax"); });
    ok &= refused([&] { Module("./missing.so"); });
    if (!ok) return 1;
  } catch (const kdsl_host::Error& error) {
    return std::fprintf(stderr, "%s: %s\n", error.kind.c_str(), error.what()), 1;
  }

  std::FILE* file = argc > 1 ? std::fopen(argv[1], "wb") : nullptr;
  if (!file) return 0;
  std::fwrite(o.data(), sizeof(float), o.size(), file);
  std::fwrite(lse.data(), sizeof(float), lse.size(), file);
  return std::fclose(file);
}
