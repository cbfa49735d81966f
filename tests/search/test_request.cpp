// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/policy/request.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Fixture {
  Platform platform = test::synthetic_platform(4);
  Profile profile = test::synthetic_profile(test::small_architecture(3, true), 16, {1, 2, 4});
  PlanRequest request{.num_gpus = 2, .global_batch = 24};

  void rejects(const std::string& text) const {
    CHECK_THROWS_MATCHES(validate_request(request, profile, platform), InputError,
                         Catch::Matchers::MessageMatches(ContainsSubstring(text)));
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a batch splits into profiled micro-batches, largest first") {
  validate_request(request, profile, platform);
  CHECK(batch_splits(request, profile) == std::vector<BatchSplit>{{4, 3}, {2, 6}, {1, 12}});
  request.global_batch = 12;
  CHECK(batch_splits(request, profile) == std::vector<BatchSplit>{{2, 3}, {1, 6}});
  request.micro_batch = 1;
  CHECK(batch_splits(request, profile) == std::vector<BatchSplit>{{1, 6}});
}

TEST_CASE_METHOD(Fixture, "errors on impossible requests name the option and a way out") {
  SECTION("no GPU") { request.num_gpus = 0, rejects("--gpus"); }
  SECTION("more GPUs than there are") { request.num_gpus = 8, rejects("Use 1 to 4"); }
  SECTION("no batch") { request.global_batch = 0, rejects("--global-batch"); }
  SECTION("negative batch") { request.global_batch = -4, rejects("--global-batch"); }
  SECTION("batch does not divide") { request.global_batch = 25, rejects("is 26"); }
  SECTION("micro-batch was not profiled") { request.micro_batch = 3, rejects("1, 2, 4"); }
  SECTION("micro-batch does not divide") {
    request.global_batch = 12;
    request.micro_batch = 4;
    rejects("--micro-batch");
  }
  SECTION("threads were not calibrated") { request.adam_threads = 3, rejects("1, 2, 4"); }
  SECTION("negative limit") { request.limits.gpu = -1, rejects("negative"); }
  SECTION("no norm") {
    request.max_gradient_norm = std::numeric_limits<double>::quiet_NaN();
    rejects("--clip");
  }
}

TEST_CASE_METHOD(Fixture, "NVMe is refused where the platform has no curves for it") {
  request.limits.nvme = kGiB;
  validate_request(request, profile, platform);
  CHECK(has_nvme(platform));
  platform.file_write = {};
  CHECK_FALSE(has_nvme(platform));
  CHECK_THROWS_WITH(validate_request(request, profile, platform), ContainsSubstring("--nvme"));
}

TEST_CASE_METHOD(Fixture, "limits and threads default to those of the platform") {
  CHECK(effective_limits(request, platform).gpu == platform.device_memory);
  CHECK(effective_limits(request, platform).host == platform.host_memory);
  request.limits = {.gpu = 5, .host = 6};
  CHECK(effective_limits(request, platform).gpu == 5);
  CHECK(effective_limits(request, platform).host == 6);
  request.limits = {};
  platform.backend = "cuda";
  platform.device_memory = 80 * kGiB;
  CHECK(effective_limits(request, platform).gpu == 76 * kGiB);
  platform.device_memory = 24 * kGiB;
  CHECK(effective_limits(request, platform).gpu == 22 * kGiB);
  platform.host_memory = 200 * kGiB;
  CHECK(effective_limits(request, platform).host == 190 * kGiB);
  platform.host_memory = 64 * kGiB;
  CHECK(effective_limits(request, platform).host == 60 * kGiB);
  CHECK(adam_thread_choices(request, platform) == std::vector{1, 2, 4});
  request.num_gpus = 4;
  CHECK(adam_thread_choices(request, platform) == std::vector{1, 2});
  platform.cpu_adam.clear();
  CHECK(adam_thread_choices(request, platform) == std::vector{1});
}

}  // namespace athanor
