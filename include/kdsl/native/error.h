// kdsl/native/error.h: Error, which is thrown in a module and raised in the runtimes at its border.
#pragma once

#include <kdsl/native/string.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

enum { kTVMFFIBacktraceUpdateModeReplace = 0, kTVMFFIBacktraceUpdateModeAppend = 1 };

class ErrorObj : public Object, public TVMFFIErrorCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIError;
};

namespace detail {

/// An error's texts lie behind it, one after the other; a later backtrace has a block of its own.
TVM_FFI_INLINE bool has_first_backtrace(const TVMFFIErrorCell& cell) noexcept {
  return cell.backtrace.data == cell.message.data + cell.message.size + 1;
}
KDSL_COLD inline void delete_error(void* self, int flags) noexcept {
  const TVMFFIErrorCell& cell = static_cast<KdslErrorObject*>(self)->error;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    if (!has_first_backtrace(cell)) kdsl_free(const_cast<char*>(cell.backtrace.data));
    drop(cell.cause_chain);
    drop(cell.extra_context);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
}
KDSL_COLD inline void update_backtrace(TVMFFIObjectHandle self, const TVMFFIByteArray* text,
                                       int32_t mode) noexcept {
  TVMFFIErrorCell& cell = static_cast<KdslErrorObject*>(self)->error;
  Writer joined;
  if (mode == kTVMFFIBacktraceUpdateModeAppend) {
    joined.append(cell.backtrace.data, cell.backtrace.size);
  }
  joined.append(text->data, text->size);
  // Without memory the old one stays.
  if (!joined.size()) return;
  if (!has_first_backtrace(cell)) kdsl_free(const_cast<char*>(cell.backtrace.data));
  cell.backtrace = joined.bytes();
}

/// Raised where there is no memory for another error. Never freed.
inline constexpr char kNoMemory[] = "MemoryError\0out of memory\0";
inline KdslErrorObject no_memory = {{KDSL_REF_COUNT_ONE, kTVMFFIError, 0, nullptr},
                                    {{kNoMemory, 11},
                                     {kNoMemory + 12, 13},
                                     {kNoMemory + 26, 0},
                                     update_backtrace,
                                     nullptr,
                                     nullptr}};

/// A new Error object.
KDSL_COLD inline TVMFFIObject* new_error(TVMFFIByteArray kind, TVMFFIByteArray message,
                                         TVMFFIByteArray backtrace) noexcept {
  TVMFFIByteArray texts[3] = {kind, message, backtrace};
  const size_t size = kind.size + message.size + backtrace.size + 3;
  auto* made = static_cast<KdslErrorObject*>(kdsl_malloc(sizeof(KdslErrorObject) + size));
  if (!made) {
    retain(&no_memory.head);
    return &no_memory.head;
  }
  auto* room = reinterpret_cast<char*>(made + 1);
  for (TVMFFIByteArray& text : texts) {
    kdsl_memcpy(room, text.data, text.size);
    text.data = room;
    room += text.size;
    *room++ = 0;
  }
  made->head = {KDSL_REF_COUNT_ONE, kTVMFFIError, 0, delete_error};
  made->error = {texts[0], texts[1], texts[2], update_backtrace, nullptr, nullptr};
  return &made->head;
}

}  // namespace detail

/// What TVM_FFI_THROW throws. `kind` is the name of the Python exception that it becomes.
class Error : public ObjectRef, public std::exception {
 public:
  using ContainerType = ErrorObj;
  static constexpr bool _type_is_nullable = false;

  Error(TVMFFIByteArray kind, TVMFFIByteArray message, TVMFFIByteArray backtrace)
      : Error(detail::new_error(kind, message, backtrace)) {}
  Error(const String& kind, const String& message, const String& backtrace)
      : Error(kind.bytes(), message.bytes(), backtrace.bytes()) {}
  explicit Error(UnsafeInit tag) : ObjectRef(tag) {}
  /// Takes over a reference.
  TVM_FFI_INLINE explicit Error(TVMFFIObject* object) noexcept {
    data_.take(reinterpret_cast<Object*>(object));
  }

  Error(const Error&) = default;
  Error(Error&&) = default;
  Error& operator=(const Error&) = default;
  Error& operator=(Error&&) = default;
  KDSL_COLD ~Error() override {}

  String kind() const { return cell()->kind; }
  String message() const { return cell()->message; }
  String backtrace() const { return cell()->backtrace; }
  KDSL_COLD const char* what() const noexcept override {
    return reinterpret_cast<KdslErrorObject*>(data_.get())->error.message.data;
  }
  const ErrorObj* operator->() const { return cell(); }
  void UpdateBacktrace(const TVMFFIByteArray* text, int32_t mode) {
    cell()->update_backtrace(cell(), text, mode);
  }

 private:
  ErrorObj* cell() const { return static_cast<ErrorObj*>(data_.get()); }
};

/// Says that the environment, e.g. Python, has its own error set already.
inline Error EnvErrorAlreadySet() { return Error("EnvErrorAlreadySet", "", ""); }

namespace detail {

TVM_FFI_INLINE TVMFFIByteArray bytes_of(const char* text) { return {text, __builtin_strlen(text)}; }

/// A String of a text that is done with.
KDSL_COLD inline String take(Writer& text) {
  const TVMFFIAny taken = new_bytes(kTVMFFISmallStr, text.data(), text.size());
  text.free();
  return String::own(taken);
}

/// Raise the error that is `object` in every runtime that is there: the caller's is one of them.
KDSL_COLD inline void raise_object(TVMFFIObject* object) noexcept {
  using SetRaised = void(TVMFFIObjectHandle);
  const TVMFFIErrorCell& cell = reinterpret_cast<KdslErrorObject*>(object)->error;
  char* text = last_error();
  if (text) {
    kdsl_snprintf(text, sizeof(LastError::text), "%s: %s", cell.kind.data, cell.message.data);
  }
  void* ours = in_table("TVMFFIErrorSetRaised");
  if (ours) {
    reinterpret_cast<SetRaised*>(ours)(object);
  } else if (__kdsl_rt && __kdsl_rt->raise) {
    __kdsl_rt->raise(cell.kind.data, cell.message.data);
  }
  void* theirs = kdsl::address_in_tvm_ffi("TVMFFIErrorSetRaised");
  if (theirs && theirs != ours) reinterpret_cast<SetRaised*>(theirs)(object);
}

KDSL_COLD inline int raise_text(const char* kind, const char* message) noexcept {
  TVMFFIObject* raised = new_error(bytes_of(kind), bytes_of(message), {"", 0});
  raise_object(raised);
  drop(raised);
  return -1;
}

/// What a call that failed has raised.
KDSL_COLD inline TVMFFIObject* take_raised() noexcept {
  using MoveRaised = void(TVMFFIObjectHandle*);
  TVMFFIObjectHandle first = nullptr, second = nullptr;
  void* ours = in_table("TVMFFIErrorMoveFromRaised");
  if (ours) reinterpret_cast<MoveRaised*>(ours)(&first);
  void* theirs = kdsl::address_in_tvm_ffi("TVMFFIErrorMoveFromRaised");
  if (theirs && theirs != ours) reinterpret_cast<MoveRaised*>(theirs)(&second);
  if (first) drop(second);
  if (!first) first = second;
  if (first) return static_cast<TVMFFIObject*>(first);
  return new_error(bytes_of("RuntimeError"), bytes_of("a function failed without saying why"),
                   {"", 0});
}
[[noreturn]] KDSL_COLD inline void throw_raised() { throw Error(take_raised()); }

/// Throws an error of texts that are done with.
[[noreturn]] KDSL_COLD inline void fail(const char* kind, Writer& text, Writer place = {}) {
  TVMFFIObject* made = new_error(bytes_of(kind), text.bytes(), place.bytes());
  text.free();
  place.free();
  throw Error(made);
}
[[noreturn]] KDSL_COLD inline void fail(const char* kind, const char* message) {
  Writer text = {};
  fail(kind, text.put(message));
}

/// A place in the code that throws the text that is assigned to it. No destructor throws: values
/// that are written into the text may throw themselves.
struct Thrower {
  const char* kind;
  const char* file;
  int line;
  const char* function;

  [[noreturn]] KDSL_COLD void operator=(Writer& text) const {
    Writer place = {};
    place.put("  File \"").put(file).put("\", line ").put_int(line);
    fail(kind, text, place.put(", in ").put(function).put("\n"));
  }
};

/// Raises the exception that is being handled; -1. Exceptions of a module end here and nowhere
/// else.
KDSL_COLD inline int raise_current() noexcept {
  const TVMFFIByteArray kind = {"InternalError", 13}, nothing = {"", 0};
  TVMFFIObject* raised = &no_memory.head;
  try {
    throw;
  } catch (const Error& error) {
    raised = ObjectAccess::head(error);
    retain(raised);
  } catch (const std::bad_alloc&) {
    retain(raised);
  } catch (const std::exception& error) {
    raised = new_error(kind, bytes_of(error.what()), nothing);
  } catch (...) {
    raised = new_error(kind, bytes_of("an exception that is no std::exception"), nothing);
  }
  raise_object(raised);
  drop(raised);
  return -1;
}

/// The text of a comparison that does not hold; null where it holds.
struct Compared {
  const char* text;
  TVM_FFI_INLINE explicit operator bool() const { return text != nullptr; }
};
KDSL_COLD inline Writer& operator<<(Writer& out, Compared compared) {
  out.put(compared.text);
  // Without memory it is the empty text, which is nobody's.
  if (*compared.text) kdsl_free(const_cast<char*>(compared.text));
  return out;
}
template <class X, class Y>
KDSL_COLD Compared differ(const X& x, const Y& y) {
  Writer text = {};
  text.put(" (") << x;
  text.put(" vs. ") << y;
  return {text.put(") ").data()};
}

// Integers of different sign are compared as the user wrote it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#define KDSL_CHECK_(name, op)                            \
  template <class X, class Y>                            \
  TVM_FFI_INLINE Compared name(const X& x, const Y& y) { \
    if (TVM_FFI_PREDICT_TRUE(x op y)) return {nullptr};  \
    return differ(x, y);                                 \
  }
KDSL_CHECK_(check_eq, ==)
KDSL_CHECK_(check_ne, !=)
KDSL_CHECK_(check_lt, <)
KDSL_CHECK_(check_le, <=)
KDSL_CHECK_(check_gt, >)
KDSL_CHECK_(check_ge, >=)
#undef KDSL_CHECK_
#pragma GCC diagnostic pop

}  // namespace detail

inline char String::at(size_t pos) const {
  if (pos < size()) return data()[pos];
  detail::fail("IndexError", "tvm::ffi::String index out of bounds");
}
inline String String::substr(size_t pos, size_t count) const {
  if (pos > size()) detail::fail("IndexError", "tvm::ffi::String substr index out of bounds");
  const size_t rest = size() - pos;
  return String(data() + pos, count < rest ? count : rest);
}

}  // namespace tvm::ffi
#pragma GCC visibility pop

// ---- Throwing and checking. `TVM_FFI_THROW(ValueError) << "text" << value;`

#define TVM_FFI_THROW(ErrorKind)                                                  \
  ::tvm::ffi::detail::Thrower{#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG} = \
      ::tvm::ffi::detail::Writer().self()
#define TVM_FFI_LOG_AND_THROW(ErrorKind) TVM_FFI_THROW(ErrorKind)

#define TVM_FFI_CHECK(condition, ErrorKind) \
  if (TVM_FFI_PREDICT_FALSE(!(condition)))  \
  TVM_FFI_THROW(ErrorKind) << "Check failed: (" #condition << ") is false: "
#define KDSL_CHECK_(name, x, op, y, ErrorKind)            \
  if (auto kdsl_failed_ = ::tvm::ffi::detail::name(x, y)) \
  TVM_FFI_THROW(ErrorKind) << "Check failed: " #x " " #op " " #y << kdsl_failed_ << ": "
#define TVM_FFI_CHECK_EQ(x, y, ErrorKind) KDSL_CHECK_(check_eq, x, ==, y, ErrorKind)
#define TVM_FFI_CHECK_NE(x, y, ErrorKind) KDSL_CHECK_(check_ne, x, !=, y, ErrorKind)
#define TVM_FFI_CHECK_LT(x, y, ErrorKind) KDSL_CHECK_(check_lt, x, <, y, ErrorKind)
#define TVM_FFI_CHECK_LE(x, y, ErrorKind) KDSL_CHECK_(check_le, x, <=, y, ErrorKind)
#define TVM_FFI_CHECK_GT(x, y, ErrorKind) KDSL_CHECK_(check_gt, x, >, y, ErrorKind)
#define TVM_FFI_CHECK_GE(x, y, ErrorKind) KDSL_CHECK_(check_ge, x, >=, y, ErrorKind)
#define TVM_FFI_CHECK_NOTNULL(x, ErrorKind) \
  ((x) == nullptr ? TVM_FFI_THROW(ErrorKind) << "Check not null: " #x << ' ', (x) : (x))
#define TVM_FFI_ICHECK(condition) TVM_FFI_CHECK(condition, InternalError)
#define TVM_FFI_ICHECK_EQ(x, y) TVM_FFI_CHECK_EQ(x, y, InternalError)
#define TVM_FFI_ICHECK_NE(x, y) TVM_FFI_CHECK_NE(x, y, InternalError)
#define TVM_FFI_ICHECK_LT(x, y) TVM_FFI_CHECK_LT(x, y, InternalError)
#define TVM_FFI_ICHECK_LE(x, y) TVM_FFI_CHECK_LE(x, y, InternalError)
#define TVM_FFI_ICHECK_GT(x, y) TVM_FFI_CHECK_GT(x, y, InternalError)
#define TVM_FFI_ICHECK_GE(x, y) TVM_FFI_CHECK_GE(x, y, InternalError)
#define TVM_FFI_ICHECK_NOTNULL(x) TVM_FFI_CHECK_NOTNULL(x, InternalError)
#ifdef NDEBUG
#define KDSL_DEBUG_ONLY_ while (false)
#define TVM_FFI_DCHECK_NOTNULL(x) (x)
#else
#define KDSL_DEBUG_ONLY_
#define TVM_FFI_DCHECK_NOTNULL(x) TVM_FFI_ICHECK_NOTNULL(x)
#endif
#define TVM_FFI_DCHECK(condition) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK(condition)
#define TVM_FFI_DCHECK_EQ(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_EQ(x, y)
#define TVM_FFI_DCHECK_NE(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_NE(x, y)
#define TVM_FFI_DCHECK_LT(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_LT(x, y)
#define TVM_FFI_DCHECK_LE(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_LE(x, y)
#define TVM_FFI_DCHECK_GT(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_GT(x, y)
#define TVM_FFI_DCHECK_GE(x, y) KDSL_DEBUG_ONLY_ TVM_FFI_ICHECK_GE(x, y)

#define TVM_FFI_SAFE_CALL_BEGIN() \
  try {                           \
  (void)0
#define TVM_FFI_SAFE_CALL_END()                 \
  return 0;                                     \
  }                                             \
  catch (...) {                                 \
    return ::tvm::ffi::detail::raise_current(); \
  }                                             \
  TVM_FFI_UNREACHABLE()
#define TVM_FFI_CHECK_SAFE_CALL(call)                                           \
  do {                                                                          \
    if (TVM_FFI_PREDICT_FALSE((call) != 0)) ::tvm::ffi::detail::throw_raised(); \
  } while (false)
