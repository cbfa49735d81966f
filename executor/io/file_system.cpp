// SPDX-License-Identifier: Apache-2.0
#include "executor/io/file_system.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Kinds of devices in platform files.
constexpr std::string_view kNvme = "nvme", kSolid = "ssd", kRotating = "hdd", kVirtual = "virtual",
                           kNone = "none";

/// A line of /proc/self/mountinfo.
struct MountLine {
  std::string device;  ///< major:minor
  std::string point;   ///< folder at which it is mounted
  std::string type;
};

std::optional<MountLine> parse_mount_line(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(0, dash)), tail(line.substr(dash + 3));
  std::string skipped;
  MountLine mount;
  fields >> skipped >> skipped >> mount.device >> skipped >> mount.point;
  tail >> mount.type;
  return mount;
}

/// Whether the folder is `point` or lies in it.
bool lies_under(const std::string& folder, const std::string& point) {
  if (point == "/" || folder == point) return true;
  return folder.starts_with(point + "/");
}

/// Returns the innermost mount around the folder. Of those at one place the last hides the others.
std::optional<MountLine> mount_of(const std::string& folder) {
  std::optional<MountLine> best;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto mount = parse_mount_line(line);
    if (!mount || !lies_under(folder, mount->point)) continue;
    if (!best || mount->point.size() >= best->point.size()) best = mount;
  }
  return best;
}

/// Returns the kind of the block device with that number.
std::string_view kind_of_device(const std::string& number) {
  std::error_code error;
  const fs::path device = fs::canonical("/sys/dev/block/" + number, error);
  if (error) return kNone;
  const std::string name = device.filename().string();
  if (name.starts_with("nvme")) return kNvme;
  // Disks of virtual machines, and devices that lie on others, say nothing of what is below.
  for (const std::string_view prefix : {"vd", "xvd", "dm-", "loop", "md", "zram"}) {
    if (name.starts_with(prefix)) return kVirtual;
  }
  for (const fs::path& disk : {device, device.parent_path()}) {
    int rotates = 0;
    if (std::ifstream(disk / "queue/rotational") >> rotates) return rotates ? kRotating : kSolid;
  }
  return kVirtual;
}

}  // namespace

std::optional<FileSystem> file_system_of(const std::string& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  struct stat status{};
  if (error || ::stat(whole.c_str(), &status) != 0) return std::nullopt;
  const std::optional<MountLine> mount = mount_of(whole.string());
  if (!mount || mount->type.empty()) return std::nullopt;
  const auto own = fmt::format("{}:{}", ::major(status.st_dev), ::minor(status.st_dev));
  const std::string_view kind = kind_of_device(own);
  return FileSystem{mount->type, std::string(kind == kNone ? kind_of_device(mount->device) : kind)};
}

std::string describe(const FileSystem& system) {
  if (system.device == kNvme) return system.type + " on an NVMe disk";
  if (system.device == kSolid) return system.type + " on a solid-state disk";
  if (system.device == kRotating) return system.type + " on a rotating disk";
  if (system.device == kVirtual) return system.type + " on a virtual disk";
  if (system.device == kNone) return system.type + " on no disk of this machine";
  return fmt::format("{} on '{}'", system.type, system.device);
}

std::string remark_on_other_file_system(const std::string& folder,
                                        const std::optional<FileSystem>& measured) {
  const std::optional<FileSystem> own = file_system_of(folder);
  if (!own || !measured || *own == *measured) return "";
  return fmt::format(
      "--nvme {} is {}, and the platform's files were measured on {}: the step may take much more "
      "or "
      "less than predicted. To predict it for this folder: athanor calibrate --nvme {}",
      folder, describe(*own), describe(*measured), folder);
}

}  // namespace athanor
