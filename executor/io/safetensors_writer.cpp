// SPDX-License-Identifier: Apache-2.0
#include "executor/io/safetensors_writer.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace athanor {

namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(
      fmt::format("{}: cannot be written: {}", path, std::generic_category().message(errno)));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorEntry> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  const std::string header = make_safetensors_header(tensors_, metadata);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_);
  try {
    write_all(std::as_bytes(std::span(header)));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (next_ == tensors_.size() || tensors_[next_].name != name ||
      tensors_[next_].bytes() != static_cast<Bytes>(bytes.size())) {
    throw Error(fmt::format("{}: '{}' of {} bytes is not the next tensor of the header", path_,
                            name, bytes.size()));
  }
  write_all(bytes);
  ++next_;
}

void SafetensorsWriter::write(std::string_view name, std::span<const float> values) {
  if (next_ == tensors_.size() || tensors_[next_].type == TensorType::F32) {
    write(name, std::as_bytes(values));
    return;
  }
  if (tensors_[next_].type != TensorType::BF16) {
    throw Error(fmt::format("{}: '{}' is neither F32 nor BF16", path_, name));
  }
  std::vector<std::byte> rounded(values.size() * size_of(TensorType::BF16));
  narrow(values, TensorType::BF16, rounded);
  write(name, std::span<const std::byte>(rounded));
}

void SafetensorsWriter::finish() {
  if (next_ != tensors_.size()) {
    throw Error(fmt::format("{}: tensor '{}' was not written", path_, tensors_[next_].name));
  }
  if (::fsync(descriptor_) != 0) fail(path_);
  // Some file systems report a failed write only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_);
}

void SafetensorsWriter::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail(path_);
    }
  }
}

}  // namespace athanor
