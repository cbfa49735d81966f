// SPDX-License-Identifier: Apache-2.0
#include "sim/base/host_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups.
struct Mount {
  std::string root;   ///< the group that is seen at the mount point: "/", or a container's own
  std::string point;  ///< folder on which it is mounted
  std::string controllers;  ///< ",memory," and the like; empty for version 2
};

/// Encloses names in commas, so that each can be found whole.
std::string listed(const std::string& names) { return fmt::format(",{},", names); }

/// Replaces \040 and the like, by which the kernel writes spaces.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size();
    plain += escape ? static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8)) : text[i];
    if (escape) i += 3;
  }
  return plain;
}

/// Reads a line of mountinfo: id, parent, device, root, point, options .. - type, source, options.
std::optional<Mount> read_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(0, dash)), tail(line.substr(dash + 3));
  std::string skipped, root, point, type, source, options;
  fields >> skipped >> skipped >> skipped >> root >> point;
  tail >> type >> source >> options;
  if (type == "cgroup2") return Mount{unescaped(root), unescaped(point), ""};
  if (type == "cgroup") return Mount{unescaped(root), unescaped(point), listed(options)};
  return std::nullopt;
}

std::vector<Mount> read_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    if (auto mount = read_mount(line)) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

/// Returns the process's group in the hierarchy of `controller` (empty: version 2).
std::optional<std::string> group_of(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = listed(line.substr(first + 1, second - first - 1));
    const bool found = controller.empty() ? line.starts_with("0::")
                                          : names.find(listed(controller)) != std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Returns the folders of the process's group and of all groups above it that are seen here.
std::vector<fs::path> group_folders(const std::string& root, const Mount& mount,
                                    const std::string& group) {
  const fs::path top = root + mount.point;
  fs::path inside = fs::path(group).lexically_relative(mount.root);
  // Another namespace's group is not seen here, only what is mounted.
  if (inside.empty() || *inside.begin() == "..") inside = ".";
  std::vector<fs::path> folders{top};
  for (const fs::path& part : inside) {
    if (part != ".") folders.push_back(folders.back() / part);
  }
  return folders;
}

std::optional<double> read_number(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;  // "max" is no number
}

template <class Value>
void lower(std::optional<Value>& limit, std::optional<double> found) {
  // Version 1 writes a huge number where there is no limit, and -1 for processors.
  constexpr double kNoLimit = 0x1p60;
  if (!found || *found <= 0 || *found >= kNoLimit) return;
  const auto value = static_cast<Value>(*found);
  limit = limit ? std::min(*limit, value) : value;
}

std::optional<double> quota_of(const fs::path& folder, bool version_2) {
  if (version_2) {
    std::ifstream file(folder / "cpu.max");
    double quota = 0, period = 0;
    return file >> quota >> period && period > 0 ? std::optional(quota / period) : std::nullopt;
  }
  const auto quota = read_number(folder / "cpu.cfs_quota_us");
  const auto period = read_number(folder / "cpu.cfs_period_us");
  return quota && period && *period > 0 ? std::optional(*quota / *period) : std::nullopt;
}

}  // namespace

ControlGroupLimits control_group_limits(const std::string& root) {
  ControlGroupLimits limits;
  for (const Mount& mount : read_mounts(root)) {
    const bool version_2 = mount.controllers.empty();
    for (const char* controller : {"memory", "cpu"}) {
      const std::string wanted = listed(controller);
      if (!version_2 && mount.controllers.find(wanted) == std::string::npos) continue;
      const auto group = group_of(root, version_2 ? "" : controller);
      for (const fs::path& folder : group_folders(root, mount, group.value_or("/"))) {
        if (wanted == ",cpu,") {
          lower(limits.cores, quota_of(folder, version_2));
        } else if (version_2) {
          lower(limits.memory, read_number(folder / "memory.max"));
          lower(limits.memory, read_number(folder / "memory.high"));
        } else {
          lower(limits.memory, read_number(folder / "memory.limit_in_bytes"));
        }
      }
    }
  }
  return limits;
}

std::optional<Bytes> address_space_limit() {
  std::optional<Bytes> limit;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    struct rlimit found{};
    if (::getrlimit(resource, &found) == 0 && found.rlim_cur != RLIM_INFINITY) {
      lower(limit, static_cast<double>(found.rlim_cur));
    }
  }
  return limit;
}

}  // namespace athanor
