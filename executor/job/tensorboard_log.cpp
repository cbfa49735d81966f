// SPDX-License-Identifier: Apache-2.0
#include "executor/job/tensorboard_log.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace athanor {
namespace {

/// Returns the table of CRC-32C (Castagnoli), one remainder for each byte, low bits first.
constexpr std::array<std::uint32_t, 256> remainders() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kReversedPolynomial : 0);
    }
    table.at(byte) = remainder;
  }
  return table;
}

/// Returns the CRC-32C of `bytes` as records hold it, rotated and shifted, so that sums of sums are
/// not like sums of data.
std::uint32_t masked_sum(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kRemainders = remainders();
  constexpr std::uint32_t kShift = 0xa282ead8;
  std::uint32_t sum = ~0U;
  for (const char c : bytes) {
    sum = kRemainders.at((sum ^ static_cast<std::uint8_t>(c)) & 0xff) ^ (sum >> 8);
  }
  sum = ~sum;
  return ((sum >> 15) | (sum << 17)) + kShift;
}

template <typename T>
void append_raw(std::string& to, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);  // little-endian, as the machines that run this
  to.append(bytes.data(), bytes.size());
}

/// Builds a message of protocol buffers, one field after the other.
class Message {
 public:
  Message& add(int field, double value) { return add_raw(field, /*type=*/1, value); }
  Message& add(int field, float value) { return add_raw(field, /*type=*/5, value); }
  Message& add(int field, std::int64_t value) {
    begin(field, /*type=*/0);
    append_number(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& add(int field, std::string_view bytes) {
    begin(field, /*type=*/2);
    append_number(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& add(int field, const Message& part) { return add(field, std::string_view(part.bytes_)); }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  template <typename T>
  Message& add_raw(int field, std::uint32_t type, T value) {
    begin(field, type);
    append_raw(bytes_, value);
    return *this;
  }
  void begin(int field, std::uint32_t type) {
    append_number((static_cast<std::uint64_t>(field) << 3) | type);
  }
  /// Appends seven bits a byte, the lowest first; all bytes but the last have the highest bit.
  void append_number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Fields of the messages, as event.proto and summary.proto number them.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2;
constexpr int kSessionStatus = 1;
constexpr std::int64_t kSessionStart = 1;

Message event_now() {
  Message event;
  event.add(kWallTime, seconds_since_epoch());
  return event;
}

FileDescriptor create(const std::string& path) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) throw Error(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
  return file;
}

std::string new_event_file(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(folder + ": cannot create: " + error.message());
  // TensorBoard reads a folder's files in the order of their names. The fraction of the second
  // keeps two starts apart.
  return fmt::format("{}/events.out.tfevents.{:017.6f}.{}.{}", folder, seconds_since_epoch(),
                     host_name(), ::getpid());
}

}  // namespace

TensorboardLog::TensorboardLog(const std::string& folder, std::int64_t resumed_step)
    : path_(new_event_file(folder)), file_(create(path_)) {
  append(event_now().add(kFileVersion, std::string_view("brain.Event:2")).bytes());
  if (resumed_step == 0) return;
  append(event_now()
             .add(kStep, resumed_step + 1)
             .add(kSessionLog, Message().add(kSessionStatus, kSessionStart))
             .bytes());
}

void TensorboardLog::write(std::int64_t step, std::span<const NamedNumber> numbers) {
  Message summary;
  for (const NamedNumber& number : numbers) {
    summary.add(kSummaryValue, Message()
                                   .add(kTag, std::string_view(number.name))
                                   .add(kSimpleValue, static_cast<float>(number.value)));
  }
  append(event_now().add(kStep, step).add(kSummary, summary).bytes());
}

/// Appends a record: the length and its sum, the data and its sum.
void TensorboardLog::append(const std::string& event) {
  std::string record;
  append_raw(record, static_cast<std::uint64_t>(event.size()));
  append_raw(record, masked_sum(record));
  record += event;
  append_raw(record, masked_sum(event));
  for (std::string_view rest = record; !rest.empty();) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw Error(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace athanor
