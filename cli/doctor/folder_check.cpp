// SPDX-License-Identifier: Apache-2.0
// The current folder, where runs and files of NVMe plans go.
#include "cli/doctor/checks.hpp"
#include "cli/doctor/kernel_text.hpp"

#include <fmt/format.h>

namespace athanor::cli {

Finding check_folder(const Machine& machine) {
  const std::string name = "folder";
  const Disk disk = disk_of(machine, machine.folder);
  const auto room = machine.room(machine.folder);
  const std::string found = fmt::format(
      "{}{}, {} free", disk.file_system.empty() ? "unknown file system" : disk.file_system,
      disk.device.empty() ? "" : " on " + disk.device, room ? format_bytes(room->free) : "nothing");
  const std::string way_out = "Use a folder of a local NVMe disk: train -o FOLDER --nvme FOLDER.";
  switch (machine.file_access(machine.folder)) {
    case FileAccess::NotWritable:
      return {name, Verdict::Costs, found + ", and nothing can be written",
              "runs and plans have to go elsewhere", way_out};
    case FileAccess::PageCache:
      return {
          name, Verdict::Costs, found + ", without direct I/O",
          "what a plan keeps on NVMe goes through the page cache: each write waits for the disk",
          way_out};
    case FileAccess::Direct:
      break;
  }
  if (disk.rotates) {
    return {name, Verdict::Costs, found + ", direct I/O; to the kernel the disk rotates",
            "if it does (virtual disks may say so), a plan that keeps state on NVMe waits for it",
            way_out};
  }
  return {name, Verdict::Good, found + ", direct I/O", "", ""};
}

}  // namespace athanor::cli
