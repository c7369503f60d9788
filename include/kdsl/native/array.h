// kdsl/native/array.h: Array<T> and Tuple<...>: sequences of values that are copied when shared.
#pragma once

#include <kdsl/native/optional.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

/// Content of an Array object: `size` values at `data`, which lie behind it in the same block.
class ArrayObj : public Object, public TVMFFISeqCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIArray;

  Any* begin() { return static_cast<Any*>(data); }
  Any* end() { return begin() + TVMFFISeqCell::size; }
  size_t size() const { return static_cast<size_t>(TVMFFISeqCell::size); }

  void push(Any value) { ::new (begin() + TVMFFISeqCell::size++) Any(kdsl::own::move(value)); }
  /// The same of an owned value.
  void give(const TVMFFIAny& value) {
    static_cast<TVMFFIAny*>(data)[TVMFFISeqCell::size++] = value;
  }
  void shrink(int64_t size) {
    while (TVMFFISeqCell::size > size) begin()[--TVMFFISeqCell::size].~Any();
  }
};

namespace detail {

TVM_FFI_INLINE bool is_sequence(int32_t index) {
  return index == kTVMFFIArray || index == kTVMFFIList;
}

/// Values of an Array or List object of any runtime.
struct Values {
  const TVMFFIAny* data;
  int64_t size;
};
TVM_FFI_INLINE Values values_of(const TVMFFIObject* sequence) {
  const auto* cell = reinterpret_cast<const TVMFFISeqCell*>(sequence + 1);
  return {static_cast<const TVMFFIAny*>(cell->data), cell->size};
}

KDSL_LAZY KDSL_PLAIN void delete_array(void* self, int flags) noexcept {
  TVMFFISeqCell& cell = static_cast<KdslArrayObject*>(self)->seq;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    const auto* values = static_cast<const TVMFFIAny*>(cell.data);
    while (cell.size-- > 0) {
      if (is_object(values[cell.size])) drop(values[cell.size].v_obj);
    }
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
}
/// A new array with room for so many values and none in it.
KDSL_LAZY KDSL_PLAIN ArrayObj* new_array(int64_t room) {
  auto* made = static_cast<KdslArrayObject*>(
      allocate(sizeof(KdslArrayObject) + static_cast<size_t>(room) * sizeof(TVMFFIAny)));
  made->head = {KDSL_REF_COUNT_ONE, kTVMFFIArray, 0, delete_array};
  made->seq = {made + 1, 0, room, nullptr};
  return reinterpret_cast<ArrayObj*>(made);
}
/// Makes room in an array of nobody else's: for `extra` values more, in a copy if need be.
KDSL_LAZY KDSL_PLAIN ArrayObj* make_own(ObjectPtr<Object>& pointer, int64_t extra) {
  auto* old = reinterpret_cast<KdslArrayObject*>(pointer.get());
  const int64_t size = old ? old->seq.size : 0;
  const bool alone = old && (old->head.combined_ref_count & 0xffffffffu) == 1;
  // An object of another runtime keeps its own rules about its memory: never grown in place.
  if (alone && size + extra <= old->seq.capacity) return reinterpret_cast<ArrayObj*>(old);
  int64_t room = extra == 0 ? size : (size + extra > 2 * size ? size + extra : 2 * size);
  if (room < 4) room = 4;
  ArrayObj* grown = new_array(room);
  TVMFFISeqCell& cell = reinterpret_cast<KdslArrayObject*>(grown)->seq;
  for (; cell.size < size; ++cell.size) {
    const TVMFFIAny& value = static_cast<const TVMFFIAny*>(old->seq.data)[cell.size];
    if (is_object(value)) retain(value.v_obj);
    static_cast<TVMFFIAny*>(cell.data)[cell.size] = value;
  }
  drop(pointer.release());
  pointer.take(grown);
  return grown;
}

/// The owned value of an element.
template <class T>
TVMFFIAny owned_of(const T& value) {
  if constexpr (is_any_v<T>) {
    return Any(value).give();
  } else {
    return TypeTraits<T>::give(value);
  }
}
/// The owned value of what converts to a T, converted.
template <class T>
KDSL_PLAIN TVMFFIAny convert(const TVMFFIAny& value) {
  return owned_of<T>(read<T>(value));
}
using Convert = TVMFFIAny(const TVMFFIAny&);

/// A new Array of the elements of another sequence: the i-th by `each[i]`, or all by the only one.
KDSL_LAZY KDSL_PLAIN ObjectPtr<Object> convert_all(const TVMFFIAny& value, Convert* const* each,
                                                   bool only) {
  const Values from = values_of(value.v_obj);
  ArrayObj* array = new_array(from.size < 4 ? 4 : from.size);
  ObjectPtr<Object> made = own_object(array);
  TVMFFISeqCell& cell = reinterpret_cast<KdslArrayObject*>(array)->seq;
  for (; cell.size < from.size; ++cell.size) {
    static_cast<TVMFFIAny*>(cell.data)[cell.size] =
        each[only ? 0 : cell.size](from.data[cell.size]);
  }
  return made;
}

[[noreturn]] KDSL_COLD inline void bad_index(int64_t index, int64_t size) {
  Writer text = {};
  text.put("Index ").put_int(index).put(" out of bounds ").put_int(size);
  fail("IndexError", text);
}

}  // namespace detail

template <class T>
class Array : public ObjectRef {
 public:
  using value_type = T;
  using ContainerType = ArrayObj;
  static constexpr bool _type_is_nullable = false;

  /// Goes over the elements, each read as it is asked for.
  class iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = T;
    using pointer = const T*;
    using reference = const T;
    using iterator_category = std::random_access_iterator_tag;

    explicit iterator(const Any* at) : at_(at) {}
    const T operator*() const { return detail::read<T>(at_->raw()); }
    const T operator[](difference_type n) const { return *(*this + n); }
    iterator& operator++() { return ++at_, *this; }
    iterator& operator--() { return --at_, *this; }
    iterator operator++(int) { return iterator(at_++); }
    iterator operator--(int) { return iterator(at_--); }
    iterator& operator+=(difference_type n) { return at_ += n, *this; }
    iterator operator+(difference_type n) const { return iterator(at_ + n); }
    iterator operator-(difference_type n) const { return iterator(at_ - n); }
    difference_type operator-(iterator other) const { return at_ - other.at_; }
    bool operator==(iterator other) const { return at_ == other.at_; }
    bool operator!=(iterator other) const { return at_ != other.at_; }
    bool operator<(iterator other) const { return at_ < other.at_; }

   private:
    const Any* at_;
  };

  Array() : ObjectRef(own_object(detail::new_array(4))) {}
  explicit Array(UnsafeInit tag) : ObjectRef(tag) {}
  Array(std::initializer_list<T> values) : Array(values.begin(), values.end()) {}
  template <class It, class = kdsl::own::enable_if_t<!kdsl::own::is_integral_v<It>>>
  Array(It first, It last) : Array() {
    for (; first != last; ++first) push_back(*first);
  }
  explicit Array(size_t count, const T& value) : Array() {
    reserve(static_cast<int64_t>(count));
    while (count-- > 0) push_back(value);
  }
  /// Of a std::vector and the like.
  template <class C,
            class = kdsl::own::enable_if_t<kdsl::own::is_same_v<typename C::value_type, T> &&
                                           !kdsl::own::is_base_of_v<ObjectRef, C> &&
                                           !detail::is_text_v<C>>,
            class = decltype(kdsl::own::declval<const C&>().begin())>
  Array(const C& values) : Array(values.begin(), values.end()) {}

  size_t size() const { return data_ ? array()->size() : 0; }
  bool empty() const { return size() == 0; }
  size_t capacity() const { return data_ ? static_cast<size_t>(array()->capacity) : 0; }
  iterator begin() const { return iterator(data_ ? array()->begin() : nullptr); }
  iterator end() const { return iterator(data_ ? array()->end() : nullptr); }
  const T operator[](int64_t index) const { return detail::read<T>(at_raw(index)); }
  T at(int64_t index) const { return (*this)[index]; }
  T front() const {
    if (empty()) detail::fail("IndexError", "front() on empty sequence");
    return (*this)[0];
  }
  T back() const {
    if (empty()) detail::fail("IndexError", "back() on empty sequence");
    return (*this)[static_cast<int64_t>(size()) - 1];
  }

  void push_back(const T& value) { own(1)->give(detail::owned_of<T>(value)); }
  template <class... Args>
  void emplace_back(Args&&... args) {
    own(1)->push(T(kdsl::own::forward<Args>(args)...));
  }
  void Set(int64_t index, T value) {
    at_raw(index);
    own(0)->begin()[index] = kdsl::own::move(value);
  }
  void pop_back() {
    if (empty()) detail::fail("IndexError", "pop_back on empty sequence");
    own(0)->shrink(static_cast<int64_t>(size()) - 1);
  }
  void clear() { own(0)->shrink(0); }
  void reserve(int64_t room) {
    const auto have = static_cast<int64_t>(size());
    if (room > have) own(room - have);
  }
  void resize(int64_t size) {
    if (size < 0) detail::fail("ValueError", "cannot resize an Array to negative size");
    ArrayObj* values = own(
        size > static_cast<int64_t>(this->size()) ? size - static_cast<int64_t>(this->size()) : 0);
    values->shrink(size);
    while (values->size() < static_cast<size_t>(size)) values->push(Any());
  }
  template <class F>
  auto Map(F function) const {
    Array<kdsl::own::decay_t<decltype(function(kdsl::own::declval<T>()))>> mapped;
    for (const T& value : *this) mapped.push_back(function(value));
    return mapped;
  }

 private:
  ArrayObj* array() const { return static_cast<ArrayObj*>(data_.get()); }
  ArrayObj* own(int64_t extra) { return detail::make_own(data_, extra); }
  const TVMFFIAny& at_raw(int64_t index) const {
    const auto count = static_cast<int64_t>(size());
    if (index < 0 || index >= count) detail::bad_index(index, count);
    return array()->begin()[index].raw();
  }
};

namespace detail {

/// Whether `test` holds for all elements of an Array or List.
KDSL_NOINLINE inline bool all_of(const TVMFFIAny& value, bool (*test)(const TVMFFIAny&)) {
  const Values from = values_of(value.v_obj);
  for (int64_t i = 0; i < from.size; ++i) {
    if (!test(from.data[i])) return false;
  }
  return true;
}
/// "Array[index 2: str]": which element does not fit.
KDSL_COLD inline void write_element(Writer& out, int64_t index, const TVMFFIAny& value,
                                    Came* came) {
  write_came(out.put("Array[index ").put_int(index).put(": "), value, came);
  out.put("]");
}

KDSL_LAZY KDSL_COLD void came_elements(Writer& out, const TVMFFIAny& value,
                                       bool (*test)(const TVMFFIAny&), Came* came) {
  if (!is_sequence(value.type_index)) return write_type(out, value.type_index);
  const Values from = values_of(value.v_obj);
  int64_t i = 0;
  while (i < from.size && test(from.data[i])) ++i;
  if (i < from.size) write_element(out, i, from.data[i], came);
}

}  // namespace detail

template <class T>
inline constexpr bool use_default_type_traits_v<Array<T>> = false;
template <class T>
struct TypeTraits<Array<T>> : detail::RefTraits<Array<T>> {
  static constexpr detail::TypeText text = {"Array", "ffi.Array", detail::text_list<T>, 1};

  static bool is(const TVMFFIAny& value) {
    return value.type_index == kTVMFFIArray && detail::all_of(value, detail::is_a<T>);
  }
  static bool fits(const TVMFFIAny& value) {
    return detail::is_sequence(value.type_index) && detail::all_of(value, detail::converts<T>);
  }
  static Array<T> get(const TVMFFIAny& value) {
    if (is(value)) return detail::RefTraits<Array<T>>::get(value);
    static constexpr detail::Convert* kEach[] = {detail::convert<T>};
    return ObjectAccess::make<Array<T>>(detail::convert_all(value, kEach, true));
  }
  static void came(detail::Writer& out, const TVMFFIAny& value) {
    detail::came_elements(out, value, detail::converts<T>, detail::came_of<T>);
  }
};

namespace detail {
template <size_t I, class First, class... Rest>
struct NthType : NthType<I - 1, Rest...> {};
template <class First, class... Rest>
struct NthType<0, First, Rest...> {
  using type = First;
};
}  // namespace detail

/// An Array of fixed length whose elements have types of their own.
template <class... Types>
class Tuple : public ObjectRef {
 public:
  using ContainerType = ArrayObj;
  static constexpr bool _type_is_nullable = false;
  template <size_t I>
  using Element = typename detail::NthType<I, Types...>::type;

  Tuple() : Tuple(Types()...) {}
  explicit Tuple(UnsafeInit tag) : ObjectRef(tag) {}
  template <class... Args, class = kdsl::own::enable_if_t<
                               sizeof...(Args) == sizeof...(Types) && (sizeof...(Args) > 0) &&
                               (kdsl::own::is_constructible_v<Types, Args&&> && ...)>>
  Tuple(Args&&... args) : ObjectRef(own_object(detail::new_array(sizeof...(Args)))) {
    auto* array = static_cast<ArrayObj*>(data_.get());
    (array->push(Any(Types(kdsl::own::forward<Args>(args)))), ...);
  }
  static constexpr size_t size() { return sizeof...(Types); }
  template <size_t I>
  Element<I> get() const {
    return detail::read<Element<I>>(static_cast<ArrayObj*>(data_.get())->begin()[I].raw());
  }
  template <size_t I, class U>
  void Set(U&& value) {
    detail::make_own(data_, 0)->begin()[I] = Element<I>(kdsl::own::forward<U>(value));
  }
};
template <class... Args>
Tuple(Args&&...) -> Tuple<kdsl::own::decay_t<Args>...>;

template <size_t I, class... Types>
auto get(const Tuple<Types...>& tuple) {
  return tuple.template get<I>();
}

template <class... Types>
inline constexpr bool use_default_type_traits_v<Tuple<Types...>> = false;
template <class... Types>
struct TypeTraits<Tuple<Types...>> : detail::RefTraits<Tuple<Types...>> {
  using Ref = Tuple<Types...>;
  static constexpr detail::TypeText text = {"Tuple", "Tuple", detail::text_list<Types...>,
                                            sizeof...(Types)};

  static bool is(const TVMFFIAny& value) {
    if (value.type_index != kTVMFFIArray || !has_size(value)) return false;
    const TVMFFIAny* at = detail::values_of(value.v_obj).data;
    return (detail::is_a<Types>(*at++) && ...);
  }
  static bool fits(const TVMFFIAny& value) {
    if (!detail::is_sequence(value.type_index) || !has_size(value)) return false;
    const TVMFFIAny* at = detail::values_of(value.v_obj).data;
    return (detail::converts<Types>(*at++) && ...);
  }
  static Ref get(const TVMFFIAny& value) {
    if (is(value)) return detail::RefTraits<Ref>::get(value);
    static constexpr detail::Convert* kEach[] = {detail::convert<Types>..., nullptr};
    return ObjectAccess::make<Ref>(detail::convert_all(value, kEach, false));
  }
  KDSL_COLD static void came(detail::Writer& out, const TVMFFIAny& value) {
    if (!detail::is_sequence(value.type_index)) return detail::write_type(out, value.type_index);
    const detail::Values from = detail::values_of(value.v_obj);
    if (!has_size(value)) {
      out.put("Array[size=").put_int(from.size).put("]");
      return;
    }
    int64_t i = 0;
    (void)((detail::converts<Types>(from.data[i])
                ? (++i, true)
                : (detail::write_element(out, i, from.data[i], detail::came_of<Types>), false)) &&
           ...);
  }

 private:
  static bool has_size(const TVMFFIAny& value) {
    return detail::values_of(value.v_obj).size == static_cast<int64_t>(sizeof...(Types));
  }
};

}  // namespace tvm::ffi

template <class... Types>
struct std::tuple_size<tvm::ffi::Tuple<Types...>> {
  static constexpr size_t value = sizeof...(Types);
};
template <size_t I, class... Types>
struct std::tuple_element<I, tvm::ffi::Tuple<Types...>> {
  using type = typename tvm::ffi::Tuple<Types...>::template Element<I>;
};
#pragma GCC visibility pop
