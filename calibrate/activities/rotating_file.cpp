// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/rotating_file.hpp"

#include "calibrate/bench/rotating_buffer.hpp"
#include "executor/backend/host_memory.hpp"
#include "executor/backend/scratch_file.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace athanor {
namespace {

MemoryBlock random_block(Bytes bytes) {
  MemoryBlock block = allocate_host_memory(bytes);
  const std::vector<float> values = random_floats(bytes / static_cast<Bytes>(sizeof(float)), 1);
  std::memcpy(block.get(), values.data(), values.size() * sizeof(float));
  return block;
}

/// Goes through a file piece by piece.
class Pieces {
 public:
  Pieces(std::shared_ptr<const ScratchFile> file, Bytes file_bytes, Bytes bytes)
      : file_(std::move(file)),
        block_(random_block(bytes)),
        bytes_(bytes),
        offsets_(file_bytes, /*alignment=*/1) {}

  void read() { file_->read(offsets_.next(bytes_), data()); }
  void write() { file_->write(offsets_.next(bytes_), data()); }

 private:
  [[nodiscard]] std::span<std::byte> data() const {
    return {block_.get(), static_cast<std::size_t>(bytes_)};
  }

  std::shared_ptr<const ScratchFile> file_;
  MemoryBlock block_;
  Bytes bytes_;
  RotatingBuffer offsets_;
};

}  // namespace

RotatingFile::RotatingFile(const std::string& folder, Bytes file_bytes)
    : file_(std::make_shared<ScratchFile>(folder, file_bytes)), file_bytes_(file_bytes) {
  constexpr Bytes kAtOnce = 16 * kMiB;
  const Bytes piece = std::min(kAtOnce, file_bytes);
  Pieces pieces(file_, file_bytes, piece);
  for (Bytes written = 0; written < file_bytes; written += piece) pieces.write();
}

bool RotatingFile::direct() const noexcept { return file_->direct(); }

Activity RotatingFile::activity(Lane lane, Bytes bytes) const {
  const auto pieces = std::make_shared<Pieces>(file_, file_bytes_, bytes);
  if (lane == Lane::NvmeRead) return [pieces] { pieces->read(); };
  return [pieces] { pieces->write(); };
}

}  // namespace athanor
