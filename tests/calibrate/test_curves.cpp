// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/curves.hpp"
#include "calibrate/machine/file_curves.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace athanor {
namespace {

constexpr StoppingRule kQuick{.min_repetitions = 2, .max_repetitions = 3};
const FileMeasurementOptions kFiles{
    .sizes = {kMiB}, .file = 4 * kMiB, .piece = kMiB, .rule = kQuick};

TEST_CASE("a curve has a point for each size") {
  std::vector<std::int64_t> made;
  const Curve curve = measure_curve({10, 20, 30}, kQuick, [&](std::int64_t size) {
    made.push_back(size);
    return Activity([] {});
  });
  CHECK(made == std::vector<std::int64_t>{10, 20, 30});
  REQUIRE(curve.points.size() == 3);
  CHECK(curve.points[1].size == 20);
}

TEST_CASE("threads are powers of two, three quarters of all and all, each to its largest size") {
  const std::int64_t large = 1 << 24;
  std::vector<std::int64_t> of_one;
  const auto curves =
      measure_by_threads({1024, large}, 6, kQuick, [&](std::int64_t size, int count) {
        if (count == 1) of_one.push_back(size);
        return Activity([] {});
      });
  CHECK(of_one == std::vector<std::int64_t>{1024});
  REQUIRE(curves.size() == 4);
  for (const int threads : {2, 4, 6}) {
    CHECK(curves.at(threads).points.size() == 2);
  }
}

TEST_CASE("files are measured and nothing stays behind") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "athanor-test-file-curves";
  std::filesystem::create_directories(folder);
  const FileCurves curves = measure_files(folder.string(), kFiles);
  CHECK(curves.read.points.size() == 1);
  CHECK(curves.write.points.at(0).seconds > 0);
  CHECK_FALSE(curves.method.empty());
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
  REQUIRE_THROWS_WITH(measure_files(folder.string(), kFiles),
                      Catch::Matchers::ContainsSubstring("athanor-test-file-curves"));
}

}  // namespace
}  // namespace athanor
