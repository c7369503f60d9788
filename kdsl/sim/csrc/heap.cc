#include "heap.h"

#include <sys/mman.h>

#include <algorithm>

namespace sim {
namespace {

// Wide enough that an index which is a few rows off still lands in no other allocation.
constexpr u64 kGuard = 1u << 22;
constexpr u64 kPage = 4096;
constexpr size_t kFreedKept = 64;

bool before(const Allocation& a, const Allocation& b) { return a.base < b.base; }

}  // namespace

const Allocation* find(const Map& map, u64 address) {
  auto it = std::upper_bound(map.begin(), map.end(), address,
                             [](u64 x, const Allocation& a) { return x < a.base; });
  if (it == map.begin()) return nullptr;
  --it;
  return address - it->base < it->size ? &*it : nullptr;
}

Heap& Heap::get() {
  static Heap* const heap = new Heap;  // never destroyed: modules may free at the process's end
  return *heap;
}

u64 Heap::allocate(u64 size, bool tracked, const std::string& name) {
  const u64 body = round_up(static_cast<i64>(std::max<u64>(size, 1)), kPage);
  const u64 mapped = body + 2 * kGuard;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapping = mmap(nullptr, mapped, PROT_NONE, flags, -1, 0);
  if (mapping == MAP_FAILED) return 0;
  u8* base = static_cast<u8*>(mapping) + kGuard;
  if (mprotect(base, body, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapped);
    return 0;
  }
  Allocation a;
  a.base = reinterpret_cast<u64>(base);
  a.size = size;
  a.name = name;
  a.mapping = mapping;
  a.mapped = mapped;
  if (tracked) {
    a.written = static_cast<u8*>(mmap(nullptr, body, PROT_READ | PROT_WRITE, flags, -1, 0));
    if (a.written == MAP_FAILED) a.written = nullptr;
  }
  std::lock_guard<std::mutex> hold(lock_);
  auto map = std::make_shared<Map>(*map_);
  map->insert(std::upper_bound(map->begin(), map->end(), a, before), a);
  map_ = std::move(map);
  return a.base;
}

void Heap::add(u64 base, u64 size, const std::string& name) {
  Allocation a;
  a.base = base;
  a.size = size;
  a.name = name;
  std::lock_guard<std::mutex> hold(lock_);
  auto map = std::make_shared<Map>(*map_);
  map->insert(std::upper_bound(map->begin(), map->end(), a, before), a);
  map_ = std::move(map);
}

bool Heap::release(u64 base) {
  std::lock_guard<std::mutex> hold(lock_);
  auto map = std::make_shared<Map>(*map_);
  auto it = std::find_if(map->begin(), map->end(),
                         [base](const Allocation& a) { return a.base == base; });
  if (it == map->end()) return false;
  if (it->written)
    munmap(it->written, round_up(static_cast<i64>(std::max<u64>(it->size, 1)), kPage));
  if (it->mapping) munmap(it->mapping, it->mapped);
  freed_.push_back(*it);
  if (freed_.size() > kFreedKept) freed_.erase(freed_.begin());
  map->erase(it);
  map_ = std::move(map);
  return true;
}

void Heap::mark_written(u64 base, u64 size) {
  const std::shared_ptr<const Map> held = map();
  const Allocation* a = sim::find(*held, base);
  if (a && a->written && size > 0) {
    memset(a->written + (base - a->base), 1, std::min(size, a->base + a->size - base));
  }
}

std::shared_ptr<const Map> Heap::map() {
  std::lock_guard<std::mutex> hold(lock_);
  return map_;
}

const Allocation* Heap::find(u64 address) {
  const std::shared_ptr<const Map> held = map();
  return sim::find(*held, address);
}

std::string Heap::describe(const Map& map, u64 address, int bytes) {
  if (address < kPage) return "a null pointer";
  const Allocation* best = nullptr;
  u64 distance = kGuard;
  bool after = true;
  for (const Allocation& a : map) {
    const u64 end = a.base + a.size;
    if (address + bytes > end && address >= a.base) {
      const u64 gap = address >= end ? address - end : 0;
      if (gap < distance) best = &a, distance = gap, after = true;
    } else if (address < a.base && a.base - address < distance) {
      best = &a, distance = a.base - address, after = false;
    }
  }
  if (!best) {
    std::lock_guard<std::mutex> hold(lock_);
    for (auto a = freed_.rbegin(); a != freed_.rend(); ++a) {
      if (address - a->base < a->size) return "memory that was freed (" + a->name + ")";
    }
    return "no allocation is near";
  }
  if (after && address < best->base + best->size) {
    return "the last bytes lie past the end of " + best->name + " (" + std::to_string(best->size) +
           " bytes)";
  }
  return std::to_string(distance) + " bytes " + (after ? "past the end of " : "before ") +
         best->name + " (" + std::to_string(best->size) + " bytes)";
}

}  // namespace sim
