// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/network_socket.hpp"

#include "sim/base/errors.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

namespace athanor {
namespace {

sockaddr_in socket_address(const Endpoint& endpoint) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = ::htons(endpoint.port);
  name.sin_addr.s_addr = endpoint.address;
  return name;
}

Descriptor open_socket(int type) {
  return Descriptor(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Connects within two seconds. Not open: nobody answers there.
Descriptor connect_to(const Endpoint& endpoint) {
  constexpr int kPatienceMs = 2000;
  Descriptor connection = open_socket(SOCK_STREAM);
  const sockaddr_in name = socket_address(endpoint);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&name);
  if (::connect(connection.get(), plain, sizeof name) != 0 && errno != EINPROGRESS) return {};
  pollfd ready{.fd = connection.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t length = sizeof error;
  if (::poll(&ready, 1, kPatienceMs) != 1 ||
      ::getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    return {};
  }
  return connection;
}

std::optional<Endpoint> name_of(const Descriptor& socket) {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0) return {};
  return Endpoint{name.sin_addr.s_addr, ::ntohs(name.sin_port)};
}

/// Returns the address from which the kernel would send to another. Nothing is sent.
std::optional<std::uint32_t> address_towards(std::uint32_t other) {
  constexpr std::uint16_t kAnyPort = 9;
  const Descriptor socket = open_socket(SOCK_DGRAM);
  const sockaddr_in name = socket_address({other, kAnyPort});
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return {};
  }
  const std::optional<Endpoint> own = name_of(socket);
  return own ? std::optional(own->address) : std::nullopt;
}

std::optional<Listener> listen_at(std::uint32_t address) {
  Descriptor socket = open_socket(SOCK_STREAM);
  const sockaddr_in name = socket_address({address, 0});
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return {};
  }
  const std::optional<Endpoint> endpoint = name_of(socket);
  if (!endpoint) return {};
  return Listener{std::move(socket), *endpoint};
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &endpoint.address, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), endpoint.port);
}

std::optional<Endpoint> parse_endpoint(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {};
  Endpoint endpoint;
  if (::inet_pton(AF_INET, text.substr(0, colon).c_str(), &endpoint.address) != 1) return {};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (error != std::errc() || last != end) return {};
  return endpoint;
}

std::optional<std::uint32_t> resolve(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return {};
  const auto address = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr;
  ::freeaddrinfo(found);
  return address;
}

bool is_loopback(std::uint32_t address) noexcept {
  constexpr std::uint32_t kLoopbackNetwork = 127;
  return ::ntohl(address) >> 24U == kLoopbackNetwork;
}

std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                        (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    addresses.push_back(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr);
  }
  ::freeifaddrs(list);
  if (addresses.empty()) addresses.push_back(::htonl(INADDR_LOOPBACK));
  return addresses;
}

std::vector<std::uint32_t> addresses_towards(std::span<const std::uint32_t> others) {
  const std::vector<std::uint32_t> own = own_addresses();
  std::vector<std::uint32_t> towards;
  for (const std::uint32_t other : others) {
    // Every machine may have that address for itself, such as that of a bridge for containers.
    if (std::ranges::find(own, other) != own.end()) continue;
    const std::optional<std::uint32_t> from = address_towards(other);
    if (from && std::ranges::find(towards, *from) == towards.end()) towards.push_back(*from);
  }
  return towards.empty() ? own : towards;
}

std::vector<Listener> listen_at(std::span<const std::uint32_t> addresses) {
  std::vector<Listener> listeners;
  for (const std::uint32_t address : addresses) {
    if (std::optional<Listener> listener = listen_at(address)) {
      listeners.push_back(std::move(*listener));
    }
  }
  if (listeners.empty()) {
    throw Error(fmt::format("no port for the ranks to meet at: {}", std::strerror(errno)));
  }
  return listeners;
}

std::optional<int> listen_at_port(const Endpoint& endpoint) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;  // an earlier job's connections may still be closing
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in name = socket_address(endpoint);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
      ::listen(descriptor, SOMAXCONN) == 0) {
    return descriptor;
  }
  const int error = errno;
  ::close(descriptor);
  if (error == EADDRNOTAVAIL) return std::nullopt;
  throw std::system_error(error, std::generic_category());
}

Descriptor accept_from(const Listener& listener) {
  return Descriptor(
      ::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Descriptor connect_to(std::span<const Endpoint> endpoints) {
  for (const Endpoint& endpoint : endpoints) {
    Descriptor connection = connect_to(endpoint);
    if (connection.is_open()) return connection;
  }
  return {};
}

}  // namespace athanor
