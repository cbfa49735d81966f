// SPDX-License-Identifier: Apache-2.0
#include "cli/common/child_processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace athanor::cli {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("every child returns its own result, in order, for any number at once") {
  for (const std::size_t parallel : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    const int parent = getpid();
    std::size_t told = 0;
    const auto results = run_in_children(
        5, parallel,
        [&](std::size_t i) {
          if (getpid() == parent) throw std::runtime_error("not a child");
          return std::to_string(i);
        },
        [&](std::size_t done) { CHECK(done == ++told); });
    REQUIRE(results.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(results[i].failure.empty());
      CHECK(results[i].output == std::to_string(i));
    }
    CHECK(told == 5);
  }
  CHECK(run_in_children(0, 2, [](std::size_t) { return ""; }).empty());
}

TEST_CASE("results larger than a pipe come back whole, several at once") {
  const auto results = run_in_children(
      4, 4, [](std::size_t i) { return std::string(1 << 20, static_cast<char>('a' + i)); });
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(results[i].output == std::string(1 << 20, static_cast<char>('a' + i)));
  }
}

TEST_CASE("a child that fails says why, and the others succeed") {
  const auto results = run_in_children(5, 2, [](std::size_t i) -> std::string {
    if (i == 1) throw std::runtime_error("out of luck");
    if (i == 2) std::raise(SIGKILL);
    if (i == 3) _exit(7);
    return "fine";
  });
  CHECK(results[0].output == "fine");
  CHECK(results[4].output == "fine");
  CHECK(results[1].failure == "out of luck");
  CHECK_THAT(results[2].failure, ContainsSubstring("signal 9"));
  CHECK_THAT(results[3].failure, ContainsSubstring("code 7"));
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(results[i].output.empty());
}

TEST_CASE("the parent does not see the changes of a child") {
  int value = 1;
  const auto results = run_in_children(1, 1, [&](std::size_t) {
    value = 2;
    return std::to_string(value);
  });
  CHECK(results[0].output == "2");
  CHECK(value == 1);
}

}  // namespace
}  // namespace athanor::cli
