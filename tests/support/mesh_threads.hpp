// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, with a mesh of connections between them.
#pragma once

#include "executor/ranks/collectives_mesh.hpp"
#include "executor/ranks/meet_mesh.hpp"

#include <netinet/in.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace athanor::test {

/// Runs `act` on `count` ranks at once and returns what each says of itself. An exception says no.
inline std::vector<bool> on_mesh(int count, const std::function<bool(HostCollectives&)>& act) {
  const std::array<std::uint32_t, 1> here{htonl(INADDR_LOOPBACK)};
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<char> said(static_cast<std::size_t>(count), 0);  // not bool, whose bits share bytes
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const RankInfo info{.rank = rank, .world_size = count, .local_rank = rank};
          const auto ranks =
              make_mesh_collectives(std::make_shared<const Mesh>(meet_mesh(info, *store, here)));
          said[static_cast<std::size_t>(rank)] = act(*ranks) ? 1 : 0;
        } catch (const std::exception&) {
        }
      });
    }
  }
  return {said.begin(), said.end()};
}

}  // namespace athanor::test
