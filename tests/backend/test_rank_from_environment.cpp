// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/collectives.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// The given variables, and no other launcher's, while alive.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "PMI_RANK",
          "PMI_SIZE", "PMIX_RANK", "MPI_LOCALRANKID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
          "SLURM_LOCALID"}) {
      unsetenv(name);
    }
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
};

TEST_CASE("without a launcher there is one rank") {
  const Environment environment({});
  const RankInfo info = rank_from_environment();
  CHECK(info.rank == 0);
  CHECK(info.world_size == 1);
  CHECK_FALSE(info.launched_by_mpi);
}

TEST_CASE("torchrun, Open MPI, PMI and Slurm are understood") {
  SECTION("torchrun") {
    const Environment environment({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}});
    const RankInfo info = rank_from_environment();
    CHECK(info.rank == 5);
    CHECK(info.world_size == 8);
    CHECK(info.local_rank == 1);
    CHECK_FALSE(info.launched_by_mpi);
  }
  SECTION("mpirun wins over variables that an outer shell left behind") {
    const Environment environment({{"RANK", "0"},
                                   {"WORLD_SIZE", "1"},
                                   {"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
    const RankInfo info = rank_from_environment();
    CHECK(info.rank == 3);
    CHECK(info.world_size == 4);
    CHECK(info.local_rank == 1);
    CHECK(info.launched_by_mpi);
  }
  SECTION("PMI without a local rank") {
    const Environment environment({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    CHECK(rank_from_environment().local_rank == 1);
    CHECK(rank_from_environment().launched_by_mpi);
  }
  SECTION("srun with PMIx") {
    const Environment environment({{"SLURM_PROCID", "2"},
                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                   {"SLURM_LOCALID", "0"},
                                   {"PMIX_RANK", "2"}});
    const RankInfo info = rank_from_environment();
    CHECK(info.rank == 2);
    CHECK(info.world_size == 4);
    CHECK(info.local_rank == 0);
    CHECK(info.launched_by_mpi);
  }
  SECTION("a Slurm batch script is no task of a step") {
    const Environment environment({{"SLURM_PROCID", "0"}, {"SLURM_NPROCS", "16"}});
    CHECK(rank_from_environment().world_size == 1);
  }
}

TEST_CASE("the rank of another process is read from its environment") {
  using namespace std::string_literals;
  CHECK(rank_in("HOME=/root\0OMPI_COMM_WORLD_RANK=3\0RANK=1\0"s) == 3);
  CHECK(rank_in("RANK=12\0"s) == 12);
  CHECK_FALSE(rank_in("MY_RANK=1\0RANK=\0HOME=RANK=2\0"s));
  CHECK_FALSE(rank_in("RANK=1x\0"s));
  CHECK_FALSE(rank_in(""));
}

TEST_CASE("a value out of range is refused with the variable's name") {
  for (const auto& [rank, size, name] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"2", "2", "RANK"},
           {"-1", "2", "RANK"},
           {"one", "2", "RANK"},
           {"0", "0", "WORLD_SIZE"},
           {"0", "2x", "WORLD_SIZE"},
           {"0", "99999999999", "WORLD_SIZE"},
           {"", "2", "RANK"}}) {
    const Environment environment({{"RANK", rank}, {"WORLD_SIZE", size}});
    REQUIRE_THROWS_AS(rank_from_environment(), InputError);
    REQUIRE_THROWS_WITH(rank_from_environment(),
                        Catch::Matchers::StartsWith("environment:" + name + ":"));
  }
}

}  // namespace
}  // namespace athanor
