// SPDX-License-Identifier: Apache-2.0
// Collectives without MPI: ranks that meet in a store and connect with each other.
#include "executor/rendezvous/network_socket.hpp"
#include "sim/base/errors.hpp"
#include "tests/backend/collective_checks.hpp"
#include "tests/support/mesh_threads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

bool all_of(const std::vector<bool>& said) {
  return std::ranges::all_of(said, [](bool yes) { return yes; });
}

/// Connections between this thread's rank 0 and a peer that the test plays.
struct TwoEnds {
  TwoEnds() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    std::vector<Descriptor> links(2);
    links[1] = Descriptor(ends[0]);
    peer = Descriptor(ends[1]);
    ranks = make_mesh_collectives(std::make_shared<const Mesh>(0, std::move(links)));
  }
  Descriptor peer;
  std::unique_ptr<HostCollectives> ranks;
};

}  // namespace

TEST_CASE("collectives over a mesh give the values that each rank works out by itself") {
  for (const int count : {2, 3, 4}) {
    CHECK(
        all_of(on_mesh(count, [](HostCollectives& ranks) { return all_collectives_work(ranks); })));
  }
}

TEST_CASE("pairs of a mesh work at the same time") {
  CHECK(all_of(on_mesh(4, [](HostCollectives& ranks) {
    const int low = ranks.rank() % 2;
    const auto pair = ranks.among({low, low + 2});
    return pair->rank() == ranks.rank() / 2 && all_collectives_work(*pair);
  })));
}

TEST_CASE("who does not know the token is not admitted") {
  const std::array<std::uint32_t, 1> here{htonl(INADDR_LOOPBACK)};
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::jthread stranger([&] {
    const std::vector<std::uint8_t> place = store->get("athanor/rank/0");
    const auto endpoint = parse_endpoint({place.begin(), place.end()});
    const Descriptor link = connect_to(std::array{endpoint.value()});
    std::array<char, 36> guess{};  // as an introduction of rank 1, but for its token
    guess[32] = 1;
    ::send(link.get(), guess.data(), guess.size(), 0);
    store->set("a stranger came", {1});
    store->get("the others have met");
  });
  const auto meet = [&](int rank) {
    return meet_mesh({.rank = rank, .world_size = 2, .local_rank = rank}, *store, here);
  };
  std::jthread second([&] {
    store->get("a stranger came");
    const auto ranks = make_mesh_collectives(std::make_shared<const Mesh>(meet(1)));
    std::array<std::uint8_t, 2> both{0, 7};
    ranks->all_gather(both.data(), 1);
  });
  std::array<std::uint8_t, 2> both{5, 0};
  make_mesh_collectives(std::make_shared<const Mesh>(meet(0)))->all_gather(both.data(), 1);
  CHECK(both[1] == 7);
  store->set("the others have met", {1});
}

TEST_CASE("a rank that does not come is named") {
  const std::array<std::uint32_t, 1> here{htonl(INADDR_LOOPBACK)};
  auto store = c10::make_intrusive<c10d::HashStore>();
  const RankInfo first{.rank = 0, .world_size = 3, .local_rank = 0};
  CHECK_THROWS_WITH(
      meet_mesh(first, *store, here, std::chrono::seconds(0)),
      ContainsSubstring("in vain for the ranks 1, 2") && ContainsSubstring("127.0.0.1"));
}

TEST_CASE("a rank whose connection ends is named, and the collectives refuse further use") {
  TwoEnds ends;
  ends.peer.close();
  CHECK_THROWS_WITH(ends.ranks->barrier(),
                    ContainsSubstring("the connection with rank 1 has ended"));
  CHECK_THROWS_WITH(ends.ranks->barrier(), ContainsSubstring("failed before"));
}

TEST_CASE("a wait for a rank that sends nothing ends when it is cancelled") {
  const TwoEnds ends;
  const std::atomic<bool> cancelled{true};
  ends.ranks->set_cancel_flag(&cancelled);
  CHECK_THROWS_WITH(ends.ranks->barrier(), "cancelled");
}

}  // namespace athanor::test
