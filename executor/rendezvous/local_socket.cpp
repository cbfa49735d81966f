// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/local_socket.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>

namespace athanor {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// An address of Linux's abstract namespace: its first byte is 0.
Address abstract_address(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.name.sun_path) - 1);
  std::copy_n(name.data(), length, &address.name.sun_path[1]);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

Descriptor local_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// A byte with room for two descriptors.
struct OutputsMessage {
  OutputsMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  OutputsMessage(const OutputsMessage&) = delete;
  OutputsMessage& operator=(const OutputsMessage&) = delete;

  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr header{};
};

std::optional<ucred> credentials_of(const Descriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return std::nullopt;
  }
  return peer;
}

bool is_own(const Descriptor& connection) {
  const auto peer = credentials_of(connection);
  return peer && peer->uid == ::geteuid();
}

}  // namespace

void Descriptor::close() noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Descriptor listen_locally(const std::string& name) {
  Descriptor socket = local_socket();
  const Address address = abstract_address(name);
  if (!socket.is_open() || ::bind(socket.get(), address.plain(), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

Descriptor connect_locally(const std::string& name) {
  Descriptor socket = local_socket();
  const Address address = abstract_address(name);
  if (!socket.is_open() || ::connect(socket.get(), address.plain(), address.length) != 0 ||
      !is_own(socket)) {
    return {};
  }
  return socket;
}

Descriptor accept_locally(const Descriptor& listening) {
  while (true) {
    Descriptor connection(
        ::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.is_open() || is_own(connection)) return connection;
  }
}

pid_t peer_process(const Descriptor& connection) noexcept {
  const auto peer = credentials_of(connection);
  return peer ? peer->pid : 0;
}

void send_outputs(const Descriptor& connection) noexcept {
  OutputsMessage message;
  constexpr std::array kOutputs{STDOUT_FILENO, STDERR_FILENO};
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof kOutputs);
  std::memcpy(CMSG_DATA(control), kOutputs.data(), sizeof kOutputs);
  [[maybe_unused]] const auto sent = ::sendmsg(connection.get(), &message.header, MSG_NOSIGNAL);
}

bool take_outputs(const Descriptor& connection) noexcept {
  constexpr int kPatienceMs = 15000;
  OutputsMessage message;
  pollfd ready{.fd = connection.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kPatienceMs) != 1 ||
      ::recvmsg(connection.get(), &message.header, MSG_CMSG_CLOEXEC) != 1) {
    return false;
  }
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  std::array<int, 2> outputs{};
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS ||
      control->cmsg_len != CMSG_LEN(sizeof outputs)) {
    return false;
  }
  std::memcpy(outputs.data(), CMSG_DATA(control), sizeof outputs);
  ::dup2(outputs[0], STDOUT_FILENO);
  ::dup2(outputs[1], STDERR_FILENO);
  for (const int output : outputs) ::close(output);
  return true;
}

std::string random_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 4; ++i) key += fmt::format("{:08x}", random());
  return key;
}

}  // namespace athanor
