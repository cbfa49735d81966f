// SPDX-License-Identifier: Apache-2.0
// The messages with which ranks and their launcher watch each other, and a connection for them.
#pragma once

#include "executor/rendezvous/local_socket.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace athanor {

enum class MessageKind : std::uint32_t {
  Hello = 1,    ///< first message; `text` is the key of the job
  Status,       ///< heartbeat; `text` says what the rank does
  Stop,         ///< finish the step, save and end; `exit_code` is the signal
  Failure,      ///< the job has failed; `text` says why
  Interrupted,  ///< interrupted before training; `exit_code` is a signal that nobody has named yet,
                ///< or 0
  Bye,          ///< the rank ends; `exit_code` says how
};

/// A message of 512 bytes. All ranks run the same program on the same kind of machine, so it
/// travels as it lies in memory.
struct RankMessage {
  MessageKind kind = MessageKind::Status;
  std::int32_t rank = -1;
  std::int32_t phase = 0;
  std::int32_t exit_code = 0;
  std::int64_t process = 0, operations = 0, collectives = 0;
  std::array<char, 64> host{};
  std::array<char, 408> text{};

  [[nodiscard]] std::string text_of() const;
  [[nodiscard]] std::string host_of() const;
  void set_text(std::string_view value);
};
static_assert(sizeof(RankMessage) == 512);

/// Returns a message of this process.
[[nodiscard]] RankMessage message_of(MessageKind kind, int rank, std::string_view text = {});

/// A connection that carries messages and never blocks.
class MessageLink {
 public:
  MessageLink() = default;
  explicit MessageLink(Descriptor connection) : connection_(std::move(connection)) {}

  [[nodiscard]] bool is_open() const noexcept { return connection_.is_open(); }
  [[nodiscard]] int descriptor() const noexcept { return connection_.get(); }
  /// Process at the other end of a local connection; 0: unknown.
  [[nodiscard]] pid_t process() const noexcept { return peer_process(connection_); }
  /// Sends a message. Where the other end does not read, heartbeats are dropped, others wait.
  void send(const RankMessage& message);
  /// Returns the next whole message. Closes the link when the other end has closed it.
  [[nodiscard]] std::optional<RankMessage> receive();
  void close() noexcept { connection_.close(); }

 private:
  void flush();

  Descriptor connection_;
  std::string incoming_, outgoing_;
};

}  // namespace athanor
