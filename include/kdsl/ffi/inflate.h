// kdsl/ffi/inflate.h: unpack data in the deflate format (RFC 1951), which device code is kept in.
#pragma once

#include <kdsl/ffi/libc.h>

namespace kdsl {

/// Unpacks one stream. What it reads and writes stays in bounds whatever the stream holds.
class Inflate {
 public:
  Inflate(const unsigned char* data, size_t size, unsigned char* out, size_t capacity)
      : in_(data), in_end_(data + size), out_(out), start_(out), out_end_(out + capacity) {}
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;
  ~Inflate() { kdsl_free(tables_); }

  /// Whether the stream is whole and fills the output exactly.
  bool run() {
    tables_ = static_cast<Table*>(kdsl_malloc(2 * sizeof(Table)));
    if (!tables_) return false;
    for (bool last = false; !last;) {
      last = take(1) != 0;
      const unsigned kind = take(2);
      const bool good = kind == 0   ? stored()
                        : kind == 1 ? fixed_codes() && coded()
                        : kind == 2 ? own_codes() && coded()
                                    : false;
      if (!good || overrun_) return false;
    }
    return out_ == out_end_;
  }

 private:
  static constexpr int kMaxBits = 15, kLiterals = 288, kDistances = 32;

  /// For the next 15 bits: a symbol, and in the low 4 bits how many of them are its code; 0: none.
  struct Table {
    uint16_t entries[1 << kMaxBits];
  };

  void refill() {
    while (count_ <= 56 && in_ < in_end_) {
      bits_ |= uint64_t{*in_++} << count_;
      count_ += 8;
    }
  }

  /// The next `count` <= 16 bits, the first of them lowest; zeros behind the end.
  unsigned take(int count) {
    refill();
    const auto value = static_cast<unsigned>(bits_ & ((uint64_t{1} << count) - 1));
    drop(count);
    return value;
  }
  void drop(int count) {
    overrun_ = overrun_ || count > count_;
    bits_ >>= count;
    count_ -= overrun_ ? 0 : count;
  }

  /// The next symbol; -1 where there is none.
  int symbol(const Table& table) {
    refill();
    const unsigned entry = table.entries[bits_ & ((1 << kMaxBits) - 1)];
    if (entry == 0) return -1;
    drop(entry & 15);
    return static_cast<int>(entry >> 4);
  }

  /// Shorter codes come first, and codes of one length in the order of their symbols.
  static bool build(Table& table, const unsigned char* lengths, int symbols) {
    int counts[kMaxBits + 1] = {}, next[kMaxBits + 2] = {};
    for (int i = 0; i < symbols; ++i) ++counts[lengths[i]];
    counts[0] = 0;
    int left = 1;
    for (int bits = 1; bits <= kMaxBits; ++bits) {
      left = 2 * left - counts[bits];
      if (left < 0) return false;
      next[bits + 1] = (next[bits] + counts[bits]) << 1;
    }
    for (uint16_t& entry : table.entries) entry = 0;
    for (int i = 0; i < symbols; ++i) {
      const int length = lengths[i];
      if (!length) continue;
      unsigned code = next[length]++, reversed = 0;
      for (int bit = 0; bit < length; ++bit, code >>= 1) reversed = 2 * reversed + (code & 1);
      for (unsigned at = reversed; at < 1u << kMaxBits; at += 1u << length) {
        table.entries[at] = static_cast<uint16_t>(i << 4 | length);
      }
    }
    return true;
  }

  bool fixed_codes() {
    unsigned char lengths[kLiterals];
    for (int i = 0; i < kLiterals; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    if (!build(tables_[0], lengths, kLiterals)) return false;
    for (int i = 0; i < kDistances; ++i) lengths[i] = 5;
    return build(tables_[1], lengths, kDistances);
  }

  bool own_codes() {
    static constexpr unsigned char kOrder[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                               11, 4,  12, 3, 13, 2, 14, 1, 15};
    const int literals = static_cast<int>(take(5)) + 257, distances = static_cast<int>(take(5)) + 1;
    const int given = static_cast<int>(take(4)) + 4;
    unsigned char lengths[kLiterals + kDistances] = {};
    for (int i = 0; i < given; ++i) lengths[kOrder[i]] = static_cast<unsigned char>(take(3));
    if (literals > kLiterals || !build(tables_[0], lengths, 19)) return false;
    for (unsigned char& length : lengths) length = 0;
    for (int i = 0; i < literals + distances;) {
      const int code = symbol(tables_[0]);
      if (code < 0 || overrun_ || (code == 16 && i == 0)) return false;
      if (code < 16) {
        lengths[i++] = static_cast<unsigned char>(code);
        continue;
      }
      const unsigned char value = code == 16 ? lengths[i - 1] : 0;
      int repeat = static_cast<int>(code == 16   ? 3 + take(2)
                                    : code == 17 ? 3 + take(3)
                                                 : 11 + take(7));
      if (i + repeat > literals + distances) return false;
      while (repeat--) lengths[i++] = value;
    }
    return build(tables_[0], lengths, literals) && build(tables_[1], lengths + literals, distances);
  }

  bool stored() {
    drop(count_ & 7);
    const unsigned size = take(16);
    if ((take(16) ^ size) != 0xffff || overrun_) return false;
    for (unsigned i = 0; i < size; ++i) {
      if (out_ == out_end_) return false;
      *out_++ = static_cast<unsigned char>(take(8));
    }
    return !overrun_;
  }

  bool coded() {
    static constexpr uint16_t kLength[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                           15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                           67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr uint16_t kDistance[] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    for (;;) {
      const int code = symbol(tables_[0]);
      if (code < 0 || overrun_) return false;
      if (code == 256) return true;
      if (code < 256) {
        if (out_ == out_end_) return false;
        *out_++ = static_cast<unsigned char>(code);
        continue;
      }
      const int kind = code - 257;
      if (kind > 28) return false;
      const int more = kind < 8 || kind == 28 ? 0 : kind / 4 - 1;
      const size_t length = kLength[kind] + take(more);
      const int far = symbol(tables_[1]);
      if (far < 0 || far > 29) return false;
      const size_t distance = kDistance[far] + take(far < 4 ? 0 : far / 2 - 1);
      if (overrun_ || distance > static_cast<size_t>(out_ - start_) ||
          length > static_cast<size_t>(out_end_ - out_)) {
        return false;
      }
      // Byte by byte: what is copied may have been written just now.
      for (size_t i = 0; i < length; ++i, ++out_) *out_ = *(out_ - distance);
    }
  }

  const unsigned char* in_;
  const unsigned char* in_end_;
  unsigned char* out_;
  unsigned char* start_;
  unsigned char* out_end_;
  uint64_t bits_ = 0;
  int count_ = 0;
  bool overrun_ = false;
  Table* tables_ = nullptr;
};

}  // namespace kdsl
