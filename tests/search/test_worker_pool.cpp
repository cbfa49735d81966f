// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/search/worker_pool.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <csignal>
#include <set>
#include <vector>

namespace athanor {
namespace {

std::vector<Job> some_jobs(int count) {
  std::vector<Job> jobs;
  for (int i = 0; i < count; ++i) jobs.push_back({i, {}, i % 2 == 0});
  return jobs;
}

JobResult square(const Job& job) {
  return {static_cast<double>(job.index * job.index) + (job.simulate ? 0.5 : 0), {}};
}

}  // namespace

TEST_CASE("workers answer in the order of the jobs, however many there are") {
  for (const int workers : {1, 2, 3}) {
    WorkerPool pool(workers, square);
    const std::vector<Job> jobs = some_jobs(1500);
    const std::vector<JobResult> results = pool.run(jobs);
    REQUIRE(results.size() == jobs.size());
    bool equal = true;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      equal = equal && results[i].seconds == square(jobs[i]).seconds;
    }
    CHECK(equal);
    CHECK(pool.run({}).empty());
  }
}

TEST_CASE("a worker is replaced before its memory could matter") {
  WorkerPool pool(1, [](const Job&) { return JobResult{static_cast<double>(getpid()), {}}; });
  std::set<double> processes;
  const std::vector<Job> jobs = some_jobs(WorkerPool::kJobsPerProcess);
  for (int i = 0; i < 3; ++i) processes.insert(pool.run(jobs).back().seconds);
  CHECK(processes.size() == 3);
  CHECK_FALSE(processes.contains(static_cast<double>(getpid())));
}

TEST_CASE("what a job throws is thrown where its result is awaited") {
  WorkerPool pool(2, [](const Job& job) -> JobResult {
    if (job.index == 3) throw InputError("platform x:h2d", "is empty", "Calibrate again.");
    return {};
  });
  CHECK_THROWS_WITH(pool.run(some_jobs(8)), Catch::Matchers::ContainsSubstring("platform x:h2d"));
}

TEST_CASE("a worker that dies ends the search with a message") {
  WorkerPool pool(2, [](const Job& job) -> JobResult {
    if (job.index == 5) raise(SIGKILL);
    return {};
  });
  CHECK_THROWS_WITH(pool.run(some_jobs(8)), Catch::Matchers::ContainsSubstring("died"));
}

}  // namespace athanor
