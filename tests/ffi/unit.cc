// What the tests of include/kdsl/ffi reach through ctypes; compiled by tests/ffi/conftest.py.
#include <kdsl/ffi/call.h>
#include <kdsl/ffi/cpu.h>
#include <kdsl/ffi/export.h>
#include <kdsl/ffi/inflate.h>

using kdsl::i64;

KDSL_MODULE("unit\n")

KDSL_EXPORT int unit_overlap(const kdsl::Region* a, const kdsl::Region* b) {
  return kdsl::overlap(*a, *b);
}

KDSL_EXPORT int unit_overlaps_itself(const kdsl::Region* view) {
  return kdsl::overlaps_itself(*view);
}

KDSL_EXPORT void unit_copy(i64 element_bytes, char* to, const i64* to_strides, char* from,
                           const i64* from_strides, const int64_t* sizes, int ndim) {
  kdsl::copy_elements(element_bytes, {to, to_strides}, {from, from_strides}, sizes, ndim);
}

KDSL_EXPORT int unit_inflate(const unsigned char* data, size_t size, unsigned char* out,
                             size_t capacity) {
  return kdsl::Inflate(data, size, out, capacity).run();
}

static const char* keep(const kdsl::Text& text) {
  static kdsl::Text kept;
  kept = text;
  return kept.c_str();
}

KDSL_EXPORT const char* unit_double(double value) {
  kdsl::Text text;
  return keep(text << value);
}

KDSL_EXPORT const char* unit_float(float value) {
  kdsl::Text text;
  return keep(text << value);
}

KDSL_EXPORT const char* unit_dtype(int code, int bits, int lanes) {
  kdsl::Text text;
  return keep(text << DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits),
                                 static_cast<uint16_t>(lanes)});
}

KDSL_EXPORT const char* unit_long_text(int repeats) {
  kdsl::Text text;
  for (int i = 0; i < repeats; ++i) text << "0123456789";
  return keep(text);
}

KDSL_EXPORT i64 unit_floordiv(i64 a, i64 b) { return kdsl::floordiv(a, b); }
KDSL_EXPORT i64 unit_mod(i64 a, i64 b) { return kdsl::mod(a, b); }

KDSL_EXPORT int unit_raise(const char* kind, const char* message) {
  return kdsl::raise(kind, message);
}

// Counts how often each task runs, and on how many threads.
struct Counts {
  int* runs;
  void* threads[64];
  bool nested;
  int work;
};

static void count_tasks(void* ctx, int64_t begin, int64_t end) {
  auto& counts = *static_cast<Counts*>(ctx);
  for (int64_t i = begin; i < end; ++i) {
    __atomic_add_fetch(&counts.runs[i], 1, __ATOMIC_RELAXED);
    if (counts.nested) {
      int inner[7] = {};
      Counts below = {inner, {}, false, 0};
      kdsl::parallel_for(7, count_tasks, &below);
      for (int runs : inner) counts.runs[i] += runs == 1 ? 0 : 1000;
    }
    for (volatile int spin = 0; spin < counts.work; spin = spin + 1) {
    }
  }
  void* self = kdsl::this_thread();
  for (void*& thread : counts.threads) {
    void* nobody = nullptr;
    if (__atomic_compare_exchange_n(&thread, &nobody, self, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) ||
        nobody == self) {
      break;
    }
  }
}

/// Returns the number of threads that took part. `work`: turns of a loop in each task.
KDSL_EXPORT int unit_parallel(i64 tasks, int* runs, int nested, int work, int small) {
  Counts counts = {runs, {}, nested != 0, work};
  kdsl::parallel_for(tasks, count_tasks, &counts, small != 0);
  int threads = 0;
  for (void* thread : counts.threads) threads += thread != nullptr;
  return threads;
}

KDSL_EXPORT int unit_uses_gomp() { return kdsl::Gomp::get().parallel() != nullptr; }

KDSL_EXPORT int unit_variant() {
  constexpr kdsl::Variant kVariants[] = {
      {"avx512", kdsl::kAvx512}, {"avx2", kdsl::kAvx2}, {"sse2", kdsl::kBaseline}};
  return kdsl::best_variant(kVariants);
}
