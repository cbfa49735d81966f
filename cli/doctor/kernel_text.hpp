// SPDX-License-Identifier: Apache-2.0
// Reads what the kernel says in text files.
#pragma once

#include "cli/doctor/machine.hpp"

#include <optional>
#include <string>

namespace athanor::cli {

[[nodiscard]] std::string first_line(const std::string& text);
/// Returns what follows `key` on its line, without spaces around it; empty without such a line.
[[nodiscard]] std::string field(const std::string& text, const std::string& key);
/// Counts the numbers of a list such as "0-3,8"; 0 for what is no list.
[[nodiscard]] int count_in_list(const std::string& list);

/// Memory of the host by /proc/meminfo; 0 where it does not tell.
[[nodiscard]] Bytes memory_of_host(const Machine& machine);
/// Limit of `ulimit -l` for this process; nothing without a limit.
[[nodiscard]] std::optional<Bytes> locked_memory_limit(const Machine& machine);
/// Limit of `ulimit -v` and `ulimit -d` for this process; nothing without a limit.
[[nodiscard]] std::optional<Bytes> mapped_memory_limit(const Machine& machine);
/// Whether this process has the capability of that number (linux/capability.h).
[[nodiscard]] bool has_capability(const Machine& machine, int number);

/// File system and device that hold a folder.
struct Disk {
  std::string file_system;  ///< such as "ext4"; empty: unknown
  std::string device;       ///< such as "nvme0n1p1"; empty: no block device
  bool rotates = false;
};
[[nodiscard]] Disk disk_of(const Machine& machine, const std::string& folder);

}  // namespace athanor::cli
