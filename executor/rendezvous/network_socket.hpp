// SPDX-License-Identifier: Apache-2.0
// TCP between the machines of a job: where a rank listens, and how others reach it. A rank listens
// at the addresses alone by which its machine reaches the others, so that no other network sees it.
#pragma once

#include "executor/rendezvous/local_socket.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// An IPv4 address in network order, and a port.
struct Endpoint {
  std::uint32_t address = 0;
  std::uint16_t port = 0;
};

/// Returns "10.0.0.1:1234".
[[nodiscard]] std::string to_string(const Endpoint& endpoint);
/// Reads what to_string() wrote. Nothing where it is something else.
[[nodiscard]] std::optional<Endpoint> parse_endpoint(const std::string& text);

/// Returns the IPv4 address of a host; nothing where it has none.
[[nodiscard]] std::optional<std::uint32_t> resolve(const std::string& host);
[[nodiscard]] bool is_loopback(std::uint32_t address) noexcept;

/// Returns this machine's addresses that others can reach; the loopback's where there is no other.
[[nodiscard]] std::vector<std::uint32_t> own_addresses();
/// Returns those of this machine's addresses from which it sends to `others`: all own addresses
/// where it reaches none of them, since others may know a way that the kernel does not.
[[nodiscard]] std::vector<std::uint32_t> addresses_towards(std::span<const std::uint32_t> others);

/// A socket that accepts connections, without blocking, at one address of this machine.
struct Listener {
  Descriptor socket;
  Endpoint endpoint;
};

/// Listens at a free port of each address. Throws Error where that is possible at none.
[[nodiscard]] std::vector<Listener> listen_at(std::span<const std::uint32_t> addresses);
/// Returns a descriptor, which is the caller's, that listens at a given port. Nothing where this
/// machine does not have the address. Throws std::system_error where the port cannot be had.
[[nodiscard]] std::optional<int> listen_at_port(const Endpoint& endpoint);
/// Accepts a waiting connection. Not open: there is none.
[[nodiscard]] Descriptor accept_from(const Listener& listener);
/// Connects within two seconds to the first that answers. Not open: none does.
[[nodiscard]] Descriptor connect_to(std::span<const Endpoint> endpoints);

}  // namespace athanor
