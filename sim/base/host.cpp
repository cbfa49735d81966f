// SPDX-License-Identifier: Apache-2.0
#include "sim/base/host.hpp"

#include "sim/base/host_limits.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace athanor {
namespace {

/// Cores in the affinity mask, which may be wider than cpu_set_t; 0 where it cannot be told.
int cores_in_mask() {
  constexpr int kWidest = 1 << 20;
  for (int width = CPU_SETSIZE; width <= kWidest; width *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(static_cast<std::size_t>(width)), [](cpu_set_t* mask) { CPU_FREE(mask); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(width));
    if (set && sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (errno != EINVAL) break;
  }
  return 0;
}

/// Value of the first line of /proc/cpuinfo with this key, such as "model name".
std::optional<std::string> processor_fact(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string_view name =
        std::string_view(line).substr(0, line.find_last_not_of('\t', colon - 1) + 1);
    if (name == key) return line.substr(colon + 2);
  }
  return std::nullopt;
}

}  // namespace

int usable_cores() {
  int cores = cores_in_mask();
  if (cores == 0) cores = static_cast<int>(std::thread::hardware_concurrency());
  // Threads beyond the whole processors of a quota would be stopped in the middle of their work.
  const std::optional<double> quota = control_group_limits().cores;
  if (quota) cores = std::min(cores, static_cast<int>(std::min(*quota, 1e6)));
  return std::max(1, cores);
}

Bytes usable_memory() {
  const Bytes physical = Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const Bytes allowed = std::min(physical, control_group_limits().memory.value_or(physical));
  return std::min(allowed, address_space_limit().value_or(allowed));
}

std::string processor_name() { return processor_fact("model name").value_or("unknown processor"); }

std::string processor_model() {
  std::string text = processor_name();
  for (const std::string_view key : {"family", "model", "stepping"}) {
    const std::string line = key == "family" ? "cpu family" : std::string(key);
    if (const auto value = processor_fact(line)) text += fmt::format(", {} {}", key, *value);
  }
  return text;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Seconds seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace athanor
