// SPDX-License-Identifier: Apache-2.0
// Run by mpirun: every rank checks every collective against values that it works out by itself.
// One test case, because MPI cannot be initialized twice; CHECK and never REQUIRE, because a rank
// that leaves early would keep the others waiting.
#include "executor/backend/collectives_local.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"
#include "tests/backend/collective_checks.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor {
namespace {

TEST_CASE("collectives between processes") {
  const RankInfo place = rank_from_environment();
  const auto ranks = make_mpi_collectives();
  CHECK(ranks->rank() == place.rank);
  CHECK(ranks->world_size() == place.world_size);
  CHECK(test::all_collectives_work(*ranks));
  if (ranks->world_size() > 1) {
    CHECK_THROWS_AS(ranks->reduce_scatter(nullptr, ranks->world_size() + 1, DataType::Float32),
                    Error);
    ranks->barrier();
    // Some of them, while the others do nothing.
    const int last = ranks->world_size() - 1;
    if (ranks->rank() == 0 || ranks->rank() == last) {
      const auto ends = ranks->among({0, last});
      CHECK(ends->rank() == (ranks->rank() == 0 ? 0 : 1));
      CHECK(test::all_collectives_work(*ends));
    }
    ranks->barrier();
  }
}

TEST_CASE("one process needs no collectives") {
  const auto local = make_local_collectives();
  float value = 3.0F;
  local->all_reduce(&value, 1, DataType::Float32);
  local->all_gather(&value, 4);
  local->barrier();
  CHECK(value == 3.0F);
  float copy = 0;
  local->all_to_all(&value, &copy, 4);
  CHECK(copy == 3.0F);
  CHECK(local->world_size() == 1);
}

}  // namespace
}  // namespace athanor
