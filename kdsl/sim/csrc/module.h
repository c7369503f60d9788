// module.h: a loaded PTX module: its variables in device memory, its kernels decoded when asked
// for.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec.h"

namespace sim {

class Loaded {
 public:
  /// Throws Error for text that is no PTX.
  explicit Loaded(const std::string& ptx);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  std::vector<std::string> kernels() const;
  /// Throws Error where there is no such kernel (it lists those there are) or it cannot be run.
  const Program& program(const std::string& kernel);
  /// Address and size of a variable; false: there is none of that name.
  bool variable(const std::string& name, u64& address, u64& size) const;
  const std::string& target() const { return tree_.target; }

 private:
  void initialise(const Variable& v, u64 address);

  Module tree_;
  std::map<std::string, u64> globals_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
  std::mutex lock_;
};

/// What a launch found and counted, as text: see result.cc.
std::string result_text(const Launch& launch);

/// Throws Error with what is wrong with a launch: too many threads, too much shared memory, ...
void check_launch(const Launch& launch);

/// Results of launches through the driver, until somebody fetches them.
class Log {
 public:
  static Log& get();
  void add(std::string text);
  std::vector<std::string> take();

 private:
  std::mutex lock_;
  std::vector<std::string> texts_;
};

}  // namespace sim
