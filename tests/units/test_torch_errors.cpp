// SPDX-License-Identifier: Apache-2.0
// LibTorch's errors as users see them.
#include "executor/units/torch_errors.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/utils.h>

#include <stdexcept>

namespace athanor {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("errors of LibTorch end a program without a stack of frames") {
  const auto add_sizes_that_differ = [] {
    static_cast<void>(torch::ones({2}) + torch::ones({3}));
    return 0;
  };
  CHECK_THROWS_MATCHES(without_frames(add_sizes_that_differ), Error,
                       MessageMatches(ContainsSubstring("must match the size of tensor b") &&
                                      !ContainsSubstring("frame #")));
  CHECK(without_frames([] { return 4; }) == 4);
  CHECK(message_without_frames(std::runtime_error("another's")) == "another's");
}

}  // namespace athanor
