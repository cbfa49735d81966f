// SPDX-License-Identifier: Apache-2.0
// The trace file: read back by the reader of torch.profiler's traces, and event by event.
#include "calibrate/kernels/kineto_trace.hpp"
#include "sim/interchange/import_kineto.hpp"
#include "tests/calibrate/kernel_trace_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace athanor {
namespace {

using Catch::Approx;

std::string written(const std::vector<KernelTrace>& traces) {
  std::ostringstream out;
  write_kineto_trace(out, traces, "NVIDIA H200");
  return out.str();
}

std::vector<nlohmann::json> events(const std::string& text, const std::string& category) {
  std::vector<nlohmann::json> found;
  const nlohmann::json document = nlohmann::json::parse(text);
  for (const auto& event : document.at("traceEvents")) {
    if (event.value("cat", "") == category) found.push_back(event);
  }
  return found;
}

TEST_CASE("a written trace is imported phase by phase") {
  const std::string text = written({test::sample_trace()});
  const KinetoTable table =
      read_kineto_step([&] { return std::make_unique<std::istringstream>(text); }, "trace.json",
                       std::nullopt, nullptr);
  CHECK(table.device == "NVIDIA H200");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].module == "block, micro-batch 4, forward");
  CHECK(table.rows[0].phase == KinetoPhase::Forward);
  CHECK(table.rows[0].total() == Approx(64e-6));
  CHECK(table.rows[0].seconds[static_cast<std::size_t>(KernelClass::MatrixProduct)] ==
        Approx(50e-6));
  CHECK(table.rows[1].phase == KinetoPhase::Backward);
  CHECK(table.rows[1].total() == Approx(122e-6));
}

TEST_CASE("kernels have device, stream, correlation and operator") {
  const std::string text = written({test::sample_trace()});
  const auto kernels = events(text, "kernel");
  REQUIRE(kernels.size() == 4);  // one repetition's
  const auto& product = kernels[1];
  CHECK(product.at("pid") == 0);
  CHECK(product.at("tid") == 7);
  CHECK(product.at("dur") == 50);
  CHECK(product.at("args").at("device") == 0);
  CHECK(product.at("args").at("stream") == 7);
  CHECK(product.at("args").at("operator") == "aten::mm");
  const auto calls = events(text, "cuda_runtime");
  REQUIRE(calls.size() == 6);
  CHECK(calls[1].at("args").at("correlation") == product.at("args").at("correlation"));
  CHECK(calls[1].at("args").at("External id") == product.at("args").at("External id"));
  CHECK_FALSE(calls[1].at("args").contains("stream"));
  CHECK(calls[0].at("ts") == 0);
  const auto copies = events(text, "gpu_memcpy");
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].at("args").at("memory bandwidth (GB/s)").get<double>() ==
        Approx(4096 / 4e-6 / 1e9));
  CHECK(events(text, "gpu_memset").size() == 1);
  CHECK(events(text, "overhead").size() == 1);
}

TEST_CASE("arrows lead from calls to what they launched") {
  std::map<std::int64_t, std::string> ends;
  for (const auto& arrow : events(written({test::sample_trace()}), "ac2g")) {
    ends[arrow.at("id").get<std::int64_t>()] += arrow.at("ph").get<std::string>();
  }
  CHECK(ends.size() == 6);
  for (const auto& [id, both] : ends) CHECK(both == "sf");
}

TEST_CASE("several traces share a file, and origins stay apart") {
  const KernelTrace first = test::sample_trace();
  const std::string text = written({first, test::sample_trace()});
  std::set<std::int64_t> origins;
  for (const auto& kernel : events(text, "kernel")) {
    origins.insert(kernel.at("args").at("External id").get<std::int64_t>());
  }
  CHECK(origins.size() == 6);
  CHECK(events(text, "user_annotation").size() == 4);
  CHECK(nlohmann::json::parse(written({})).at("traceEvents").size() == 2);
}

}  // namespace
}  // namespace athanor
