// SPDX-License-Identifier: Apache-2.0
// Batches made ahead: the same ones, wherever they were made.
#include "executor/batches/prefetch.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/types.h>

#include <map>
#include <mutex>
#include <thread>

namespace athanor {
namespace {

/// Records what a source was asked for, and by which thread last.
struct Calls {
  std::mutex mutex;
  std::map<std::int64_t, std::thread::id> by_first;
};

/// A source whose batches hold their samples' numbers. Throws from sample `end` on.
BatchSource numbers(Calls& calls, std::int64_t end = 1000) {
  return [&calls, end](std::int64_t first, std::int64_t count) {
    {
      const std::lock_guard lock(calls.mutex);
      calls.by_first[first] = std::this_thread::get_id();
    }
    if (first >= end) throw InputError("data", "it ends", "Give more.");
    return Batch{torch::arange(first, first + count), {}};
  };
}

bool holds(const Batch& batch, std::int64_t first, std::int64_t count) {
  return batch.inputs.equal(torch::arange(first, first + count));
}

TEST_CASE("batches are those of the source, in any order of requests") {
  Calls calls;
  const BatchSource source = prefetched(numbers(calls), torch::kCPU);
  for (const std::int64_t first : {4, 12, 20, 28, 4, 12, 200, 100, 108, 117}) {
    CHECK(holds(source(first, 4), first, 4));
  }
  CHECK(holds(source(126, 2), 126, 2));
}

TEST_CASE("a thread of its own makes the batch that comes next") {
  Calls calls;
  {
    const BatchSource source = prefetched(numbers(calls), torch::kCPU);
    for (const std::int64_t first : {3, 11, 19, 27}) static_cast<void>(source(first, 4));
  }
  const auto here = std::this_thread::get_id();
  CHECK(calls.by_first.at(3) == here);
  CHECK(calls.by_first.at(11) == here);
  CHECK(calls.by_first.at(19) != here);
  CHECK(calls.by_first.at(27) != here);
  CHECK(calls.by_first.at(35) != here);  // nobody asked for it
}

TEST_CASE("what is thrown ahead is thrown when the batch is asked for") {
  Calls calls;
  const BatchSource source = prefetched(numbers(calls, 20), torch::kCPU);
  static_cast<void>(source(0, 10));
  static_cast<void>(source(10, 10));  // 20 is under way, and fails
  CHECK(holds(source(5, 5), 5, 5));
  static_cast<void>(source(0, 10));
  static_cast<void>(source(10, 10));
  CHECK_THROWS_AS(source(20, 10), InputError);
}

}  // namespace
}  // namespace athanor
