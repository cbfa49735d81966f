// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/kernel_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>

namespace athanor::cli {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number number{};
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return status == std::errc{} ? std::optional(number) : std::nullopt;
}

/// Whether a folder is the mount point or lies below it.
bool is_on(const std::string& folder, const std::string& point) {
  return point == "/" || folder == point || folder.starts_with(point + "/");
}

}  // namespace

std::string first_line(const std::string& text) { return trimmed(text.substr(0, text.find('\n'))); }

std::string field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  }
  return "";
}

int count_in_list(const std::string& list) {
  std::istringstream parts(trimmed(list));
  int count = 0;
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto first = number_in<int>(part);
    const auto last = dash == std::string::npos ? first : number_in<int>(part.substr(dash + 1));
    if (first && last && *last >= *first) count += *last - *first + 1;
  }
  return count;
}

Bytes memory_of_host(const Machine& machine) {
  const auto kibibytes = number_in<Bytes>(field(machine.text("/proc/meminfo"), "MemTotal:"));
  return kibibytes.value_or(0) * kKiB;
}

std::optional<Bytes> locked_memory_limit(const Machine& machine) {
  // "Max locked memory  soft  hard  bytes"; "unlimited" is no number.
  return number_in<Bytes>(field(machine.text("/proc/self/limits"), "Max locked memory"));
}

std::optional<Bytes> mapped_memory_limit(const Machine& machine) {
  std::optional<Bytes> least;
  for (const char* key : {"Max address space", "Max data size"}) {
    const auto limit = number_in<Bytes>(field(machine.text("/proc/self/limits"), key));
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
}

bool has_capability(const Machine& machine, int number) {
  const auto held =
      number_in<std::uint64_t>(field(machine.text("/proc/self/status"), "CapEff:"), 16);
  return (held.value_or(0) >> number & 1U) != 0;
}

Disk disk_of(const Machine& machine, const std::string& folder) {
  std::istringstream lines(machine.text("/proc/self/mountinfo"));
  std::string longest, number;
  Disk disk;
  for (std::string line; std::getline(lines, line);) {
    // id, parent, device, root, point, options .. - type, source, options
    std::istringstream fields(line);
    std::string skipped, device, point;
    fields >> skipped >> skipped >> device >> skipped >> point;
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || !is_on(folder, point) || point.size() < longest.size()) {
      continue;
    }
    longest = point;
    number = device;
    std::istringstream(line.substr(dash + 3)) >> disk.file_system;
  }
  if (number.empty()) return disk;
  const std::string block = "/sys/dev/block/" + number;
  disk.device = field(machine.text(block + "/uevent"), "DEVNAME=");
  // A partition has the queue of its disk.
  const std::string queue = machine.has(block + "/queue") ? "/queue" : "/../queue";
  disk.rotates = first_line(machine.text(block + queue + "/rotational")) == "1";
  return disk;
}

}  // namespace athanor::cli
