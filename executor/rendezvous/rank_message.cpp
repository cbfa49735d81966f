// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/rank_message.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace athanor {
namespace {

template <std::size_t N>
std::string string_in(const std::array<char, N>& characters) {
  return {characters.data(), ::strnlen(characters.data(), N)};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::string RankMessage::text_of() const { return string_in(text); }

std::string RankMessage::host_of() const { return string_in(host); }

void RankMessage::set_text(std::string_view value) {
  text = {};
  std::copy_n(value.data(), std::min(value.size(), text.size() - 1), text.data());
}

RankMessage message_of(MessageKind kind, int rank, std::string_view text) {
  RankMessage message;
  message.kind = kind;
  message.rank = rank;
  message.process = ::getpid();
  static_cast<void>(::gethostname(message.host.data(), message.host.size() - 1));
  message.set_text(text);
  return message;
}

void MessageLink::send(const RankMessage& message) {
  flush();
  if (!is_open()) return;
  if (!outgoing_.empty() && message.kind == MessageKind::Status) return;
  outgoing_.append(reinterpret_cast<const char*>(&message), sizeof message);
  flush();
}

void MessageLink::flush() {
  while (is_open() && !outgoing_.empty()) {
    const ssize_t sent =
        ::send(connection_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && would_block()) return;
    // The other end may have closed. Its last messages can still be read: receive() closes.
    outgoing_.erase(0, sent < 0 ? outgoing_.size() : static_cast<std::size_t>(sent));
  }
}

std::optional<RankMessage> MessageLink::receive() {
  std::array<char, sizeof(RankMessage)> bytes{};
  while (is_open() && incoming_.size() < sizeof(RankMessage)) {
    const ssize_t count = ::recv(connection_.get(), bytes.data(),
                                 sizeof(RankMessage) - incoming_.size(), MSG_DONTWAIT);
    if (count < 0 && would_block()) return std::nullopt;
    if (count <= 0) {
      close();
      return std::nullopt;
    }
    incoming_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (incoming_.size() < sizeof(RankMessage)) return std::nullopt;
  RankMessage message;
  std::memcpy(&message, incoming_.data(), sizeof message);
  incoming_.clear();
  return message;
}

}  // namespace athanor
