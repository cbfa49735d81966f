// SPDX-License-Identifier: Apache-2.0
// Tests at which addresses ranks listen, and how these are written as text.
#include "executor/rendezvous/network_socket.hpp"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>

namespace athanor {
namespace {

std::uint32_t address_of(const char* text) {
  std::uint32_t address = 0;
  REQUIRE(::inet_pton(AF_INET, text, &address) == 1);
  return address;
}

TEST_CASE("an endpoint is read as it was written, and nothing else is read") {
  const Endpoint endpoint{address_of("10.1.2.3"), 29500};
  CHECK(to_string(endpoint) == "10.1.2.3:29500");
  const auto read = parse_endpoint("10.1.2.3:29500");
  REQUIRE(read);
  CHECK(read->address == endpoint.address);
  CHECK(read->port == endpoint.port);
  for (const char* const text :
       {"", "10.1.2.3", "10.1.2:1", "10.1.2.3:", "10.1.2.3:70000", "10.1.2.3:1x", "host:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_endpoint(text));
  }
}

TEST_CASE("a rank listens at the address that it was given and at no other") {
  const std::array<std::uint32_t, 1> here{address_of("127.0.0.1")};
  const std::vector<Listener> listeners = listen_at(here);
  REQUIRE(listeners.size() == 1);
  CHECK(listeners[0].endpoint.address == here[0]);
  CHECK_FALSE(accept_from(listeners[0]).is_open());
  const Endpoint elsewhere{address_of("127.0.0.2"), listeners[0].endpoint.port};
  CHECK_FALSE(connect_to(std::array{elsewhere}).is_open());
  // The first that answers is taken.
  const Descriptor connection = connect_to(std::array{elsewhere, listeners[0].endpoint});
  CHECK(connection.is_open());
  CHECK(accept_from(listeners[0]).is_open());
}

TEST_CASE("a port of an address that this machine does not have is not listened at") {
  CHECK_FALSE(listen_at_port({address_of("192.0.2.1"), 0}));  // an address for documents
}

TEST_CASE("a machine reaches others from its own addresses, and itself by all of them") {
  const std::vector<std::uint32_t> own = own_addresses();
  REQUIRE_FALSE(own.empty());
  CHECK(addresses_towards(own) == own);
  for (const std::uint32_t from : addresses_towards(std::array{address_of("192.0.2.1")})) {
    CHECK(std::ranges::find(own, from) != own.end());
  }
}

TEST_CASE("the loopback is told from other addresses") {
  CHECK(is_loopback(address_of("127.0.1.1")));
  CHECK_FALSE(is_loopback(address_of("10.0.0.127")));
  CHECK(resolve("127.0.0.1") == address_of("127.0.0.1"));
}

}  // namespace
}  // namespace athanor
