// SPDX-License-Identifier: Apache-2.0
// Reads and writes that reach the device: O_DIRECT where the file system has it, else fsync after
// writing and pages dropped before reading.
#include "calibrate/curves.hpp"
#include "calibrate/measure.hpp"
#include "sim/model/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace athanor {
namespace {

constexpr std::size_t kDirectAlignment = 4096;
constexpr Bytes kLargestTransfer = 16 * kMiB;

struct Free {
  void operator()(std::byte* block) const noexcept { std::free(block); }
};
using AlignedBlock = std::unique_ptr<std::byte, Free>;

AlignedBlock zeroed_block(std::size_t bytes) {
  AlignedBlock block(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, bytes)));
  if (!block) {
    throw std::bad_alloc();
  }
  std::memset(block.get(), 0, bytes);
  return block;
}

/// An open file that vanishes when it is closed.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& folder) {
    std::string path = folder + "/.athanor-calibrate-XXXXXX";
    descriptor_ = mkstemp(path.data());
    if (descriptor_ < 0) {
      throw Error(fmt::format("cannot create a file in {}: {}", folder, std::strerror(errno)));
    }
    unlink(path.c_str());
    direct_ = try_direct();
  }
  ~ScratchFile() { close(descriptor_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] bool direct() const noexcept { return direct_; }

  void write(const std::byte* data, Bytes bytes) const {
    for_each_transfer(bytes, [&](Bytes offset, std::size_t count) {
      return pwrite(descriptor_, data, count, offset);
    });
    if (fsync(descriptor_) != 0) {
      throw Error(fmt::format("fsync failed: {}", std::strerror(errno)));
    }
  }

  void read(std::byte* data, Bytes bytes) const {
    if (!direct_) {
      posix_fadvise(descriptor_, 0, bytes, POSIX_FADV_DONTNEED);
    }
    for_each_transfer(bytes, [&](Bytes offset, std::size_t count) {
      return pread(descriptor_, data, count, offset);
    });
  }

 private:
  template <typename Transfer>
  static void for_each_transfer(Bytes bytes, Transfer transfer) {
    for (Bytes offset = 0; offset < bytes;) {
      const auto count = static_cast<std::size_t>(std::min(bytes - offset, kLargestTransfer));
      const ssize_t moved = transfer(offset, count);
      if (moved <= 0) {
        throw Error(fmt::format("measuring the file system: {}",
                                moved == 0 ? "unexpected end of file" : std::strerror(errno)));
      }
      offset += moved;
    }
  }

  /// Some file systems accept the flag and then refuse to write.
  [[nodiscard]] bool try_direct() const {
    const int flags = fcntl(descriptor_, F_GETFL);
    if (fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) {
      return false;
    }
    const auto block = zeroed_block(kDirectAlignment);
    if (pwrite(descriptor_, block.get(), kDirectAlignment, 0) > 0) {
      return true;
    }
    fcntl(descriptor_, F_SETFL, flags);
    return false;
  }

  int descriptor_ = -1;
  bool direct_ = false;
};

AlignedBlock random_block(Bytes bytes) {
  AlignedBlock block = zeroed_block(static_cast<std::size_t>(bytes));
  const std::vector<float> values = random_floats(bytes / static_cast<Bytes>(sizeof(float)), 1);
  std::memcpy(block.get(), values.data(), values.size() * sizeof(float));
  return block;
}

Curve::Point point(Bytes bytes, const Samples& samples) {
  return {static_cast<double>(bytes), samples.median(), samples.interquartile_range()};
}

}  // namespace

FileCurves measure_files(const std::string& folder, const std::vector<Bytes>& sizes,
                         const StoppingRule& rule) {
  FileCurves curves;
  ScratchFile file(folder);
  curves.method = file.direct() ? "O_DIRECT" : "page cache dropped before reads";
  curves.method += ", fsync after each write";
  const auto block = random_block(kLargestTransfer);
  for (const Bytes bytes : sizes) {
    curves.write.points.push_back(
        point(bytes, measure(rule, [&] { file.write(block.get(), bytes); })));
    curves.read.points.push_back(
        point(bytes, measure(rule, [&] { file.read(block.get(), bytes); })));
  }
  return curves;
}

}  // namespace athanor
