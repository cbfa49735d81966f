// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/run_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

struct CompareFixture : RunFixture {
  [[nodiscard]] ProgramResult compare(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"compare", folder.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  }
};

}  // namespace

TEST_CASE_METHOD(CompareFixture, "compare finds the factor between prediction and measurement") {
  const ProgramResult result = compare({"--json"});
  REQUIRE(result.exit_code == 0);
  const auto json = nlohmann::json::parse(result.out);
  const auto& step = json.at("step_seconds");
  CHECK(step.at("predicted").get<double>() == Approx(timeline.step_seconds));
  CHECK(step.at("measured").get<double>() == Approx(kSlowdown * timeline.step_seconds));
  CHECK(step.at("measured_steps") == 3);
  CHECK(step.at("relative_error").get<double>() == Approx(1 - 1 / kSlowdown));
  CHECK(step.at("predicted_with_measured_rates").get<double>() ==
        Approx(kSlowdown * timeline.step_seconds).epsilon(0.005));
  CHECK_FALSE(step.contains("repredicted"));  // there is no run.json
  CHECK(json.at("device_peak_bytes") == json.at("peak_bytes").at("gpu"));
  for (const char* tier : {"gpu", "pinned", "host", "nvme"}) {
    const auto& peak = json.at("peak_bytes").at(tier);
    CHECK(peak.at("predicted") == peak.at("measured"));
    CHECK((peak.at("predicted") > 0) == (std::string_view(tier) != "nvme"));
  }
  REQUIRE_FALSE(json.at("operations").empty());
  for (const auto& operation : json.at("operations")) {
    CAPTURE(operation.dump());
    CHECK(operation.at("count").get<int>() > 0);
    CHECK((operation.at("kind") == "adam") == (operation.at("lane") == "cpu-adam"));
    if (operation.contains("ratio")) {
      CHECK(operation.at("ratio").get<double>() == Approx(kSlowdown).epsilon(1e-3));
    }
  }
  CHECK(nlohmann::json::parse(read_text_file(folder.file("comparison.json"))) == json);
  CHECK(nlohmann::json::parse(read_text_file(folder.file("predicted.trace.json")))
            .contains("traceEvents"));
}

TEST_CASE_METHOD(CompareFixture, "compare answers where the run folder cannot be written") {
  for (const char* name : {"comparison.json", "predicted.trace.json"}) {
    std::filesystem::create_directories(folder.file(name) + "/in-the-way");
  }
  const ProgramResult result = compare({});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("step"));
  CHECK_THAT(result.err, ContainsSubstring("comparison.json is not kept: "));
  CHECK_THAT(result.err, ContainsSubstring("predicted.trace.json is not kept: "));
}

TEST_CASE_METHOD(CompareFixture, "compare counts the steps since a run got another plan") {
  const std::string path = folder.file("metrics.jsonl");
  std::string lines;
  const auto add = [&](double factor, double predicted, Bytes peak) {
    const nlohmann::json line{{"time_metrics/end_to_end(s)", factor * timeline.step_seconds},
                              {"predicted_step_seconds", predicted},
                              {"memory/device_peak_bytes", peak}};
    lines += line.dump() + "\n";
  };
  const Bytes peak = timeline.peak_bytes.gpu;
  for (int i = 0; i < 9; ++i) add(7, 7, 3 * peak);  // under the plan with which it began
  for (const double factor : {9, 9, 1, 1, 1}) add(factor, timeline.step_seconds, peak);
  write_file_atomically(path, lines);
  const auto json = nlohmann::json::parse(compare({"--json"}).out);
  CHECK(json.at("step_seconds").at("measured_steps") == 3);
  CHECK(json.at("step_seconds").at("measured").get<double>() == Approx(timeline.step_seconds));
  const auto& device = json.at("device_peak_bytes");
  CHECK(device.at("predicted") == device.at("measured"));
}

TEST_CASE_METHOD(CompareFixture, "compare leaves out a step that is being written") {
  const std::string path = folder.file("metrics.jsonl");
  const std::string whole = read_text_file(path);
  const std::string before = compare({"--json"}).out;
  write_file_atomically(path, whole + R"({"step":6,"loss_met)");
  CHECK(compare({"--json"}).out == before);
  write_file_atomically(path, "{\"step\n" + whole);
  const ProgramResult damaged = compare({});
  CHECK(damaged.exit_code == 2);
  CHECK_THAT(damaged.err, ContainsSubstring("metrics.jsonl:1"));
}

TEST_CASE_METHOD(CompareFixture, "compare says what a folder lacks, and where it comes from") {
  std::filesystem::remove(folder.file("measured.trace.json"));
  const ProgramResult killed = compare({});
  CHECK(killed.exit_code == 2);
  CHECK_THAT(killed.err, ContainsSubstring("measured.trace.json") && ContainsSubstring("--resume"));
  std::filesystem::remove(folder.file("plan.json"));
  const ProgramResult other = compare({});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, ContainsSubstring("is no run") && ContainsSubstring("train --output"));
}

TEST_CASE_METHOD(CompareFixture, "compare as text says how far off the prediction was") {
  const ProgramResult result = compare({});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("20.0 % off") && ContainsSubstring("equal") &&
                             ContainsSubstring("backward") &&
                             ContainsSubstring("rates of the run itself") &&
                             ContainsSubstring(": 0.0 % off"));
  CHECK_THAT(result.out, ContainsSubstring("device peak") && ContainsSubstring("\npinned") &&
                             ContainsSubstring("\nhost") && !ContainsSubstring("\nnvme"));
}

TEST_CASE_METHOD(CompareFixture, "compare says which rate moved by how much") {
  const auto json = nlohmann::json::parse(compare({"--json"}).out);
  REQUIRE(json.at("rates").size() >= 5);
  std::set<std::string> units;
  for (const auto& rate : json.at("rates")) {
    INFO(rate.dump());
    CHECK(rate.at("count").get<int>() > 0);
    CHECK(rate.at("ratio").get<double>() == Approx(kSlowdown).epsilon(1e-3));
    const auto predicted = rate.at("predicted_per_second").get<double>();
    CHECK(predicted / rate.at("measured_per_second").get<double>() ==
          Approx(kSlowdown).epsilon(1e-3));
    const auto weight = rate.at("weight").get<double>();
    CHECK(rate.at("combined_seconds").get<double>() ==
          Approx(rate.at("predicted_seconds").get<double>() * std::pow(kSlowdown, weight))
              .epsilon(1e-3));
    CHECK(rate.at("calibrated_spread").get<double>() >= 0.039);
    units.insert(rate.at("unit").get<std::string>());
  }
  CHECK(units == std::set<std::string>{"bytes", "elements", "operations"});
  const auto& step = json.at("step_seconds");
  CHECK(step.at("predicted_with_combined_rates").get<double>() >= step.at("predicted"));
  CHECK(step.at("predicted_with_combined_rates").get<double>() <=
        1.005 * step.at("predicted_with_measured_rates").get<double>());
  CHECK_THAT(compare({}).out, ContainsSubstring("rate of") && ContainsSubstring("GB/s") &&
                                  ContainsSubstring("G elements/s") &&
                                  ContainsSubstring("backward block"));
}

TEST_CASE_METHOD(CompareFixture, "compare shows the run's own second prediction") {
  const Seconds again = 1.1 * timeline.step_seconds;
  const auto record = [&](const nlohmann::json& value) {
    const nlohmann::json json{{"schema", "athanor.run/2"}, {"repredicted_step_seconds", value}};
    write_file_atomically(folder.file("run.json"), json.dump());
  };
  record(nullptr);
  CHECK_FALSE(
      nlohmann::json::parse(compare({"--json"}).out).at("step_seconds").contains("repredicted"));
  record(again);
  const auto step = nlohmann::json::parse(compare({"--json"}).out).at("step_seconds");
  CHECK(step.at("repredicted") == again);
  CHECK(step.at("repredicted_relative_error").get<double>() == Approx(1 - 1.1 / kSlowdown));
  CHECK_THAT(compare({}).out,
             ContainsSubstring("again by the run") && ContainsSubstring("12.0 % off"));
}

TEST_CASE_METHOD(CompareFixture, "compare says how often updates that did not wait were undone") {
  const auto write_norms = [&](const std::vector<double>& norms) {
    std::string lines;
    for (const double norm : norms) {
      const nlohmann::json line{{"time_metrics/end_to_end(s)", timeline.step_seconds},
                                {"memory/device_peak_bytes", timeline.peak_bytes.gpu},
                                {"grad_norm", norm}};
      lines += line.dump() + "\n";
    }
    write_file_atomically(folder.file("metrics.jsonl"), lines);
  };
  write_norms({1, 2, 3, 4});
  CHECK_FALSE(nlohmann::json::parse(compare({"--json"}).out).contains("clipping"));

  plan.dtype = profile.dtype = DataType::BFloat16;
  plan.clipping = Clipping::Speculate;
  plan.max_gradient_norm = 2.5;
  plan.schedule = {};
  write_run();
  write_norms({1, 2, 3, 4});
  const auto clipping = nlohmann::json::parse(compare({"--json"}).out).at("clipping");
  CHECK(clipping.at("expected_share") == 0);
  CHECK(clipping.at("measured_share") == 0.5);
  CHECK(clipping.at("clipped_steps") == 2);
  const auto seconds = clipping.at("predicted_step_seconds").get<double>();
  CHECK(seconds > timeline.step_seconds);
  CHECK_THAT(compare({}).out, ContainsSubstring("changed 2 of 4 steps, 0 % were expected") &&
                                  ContainsSubstring("tune with --clip 2.5 --clipped-share 0.5"));

  // The share that was measured gives the prediction that compare names, and no complaint.
  plan.clipped_share = 0.5;
  write_run();
  CHECK(timeline.step_seconds == Approx(seconds));
  CHECK_THAT(compare({}).out, !ContainsSubstring("clipping"));
}

TEST_CASE_METHOD(CompareFixture,
                 "compare takes the steps since a change of the plan, and tells it") {
  const auto write_steps = [&](const std::vector<double>& factors) {
    std::string lines;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const nlohmann::json line{{"step", i + 1},
                                {"time_metrics/end_to_end(s)", factors[i] * timeline.step_seconds},
                                {"memory/device_peak_bytes", timeline.peak_bytes.gpu}};
      lines += line.dump() + "\n";
    }
    write_file_atomically(folder.file("metrics.jsonl"), lines);
  };
  write_steps({9, 9, 5, 5, 5, 5, 5, 2, 2, 1, 1, 1});
  const nlohmann::json change{{"after_step", 7},
                              {"current_step_seconds", 5.0},
                              {"best_step_seconds", 1.0},
                              {"changes", {"sharding: replicated -> sharded"}},
                              {"moved_rates", {"adam on cpu-adam takes 3 times as long"}}};
  const nlohmann::json start{{"schema", "athanor.run/2"}, {"changed_plan", change}};
  nlohmann::json record = start;  // the run was resumed under the plan
  record["history"] = {nlohmann::json{{"host", "here"}}, start};
  write_file_atomically(folder.file("run.json"), record.dump());

  const auto json = nlohmann::json::parse(compare({"--json"}).out);
  CHECK(json.at("step_seconds").at("measured").get<double>() == Approx(timeline.step_seconds));
  REQUIRE(json.at("changed_plan").size() == 1);
  CHECK(json.at("changed_plan").at(0).at("after_step") == 7);
  CHECK(json.at("changed_plan").at(0).at("predicted_before") == 5.0);
  CHECK_THAT(compare({}).out,
             ContainsSubstring("changed after step 7: adam on cpu-adam takes 3 times as long; a "
                               "step is predicted to take 1.00 s instead of 5.00 s (sharding"));
  record["changed_plan"].erase("changes");
  write_file_atomically(folder.file("run.json"), record.dump());
  const ProgramResult broken = compare({});
  CHECK(broken.exit_code == 2);
  CHECK_THAT(broken.err, ContainsSubstring("run.json:changed_plan"));
}

TEST_CASE_METHOD(CompareFixture,
                 "compare says how to measure a GPU's host again if it has changed") {
  CHECK_THAT(compare({}).out, !ContainsSubstring("--refresh"));  // never on the CPU backend
  Platform gpus = platform;
  gpus.backend = "cuda";
  write_file_atomically(folder.file("platform.json"), to_json(gpus));
  CHECK_THAT(compare({}).out,
             ContainsSubstring("1.25 times as long") && ContainsSubstring("calibrate --refresh"));
}

TEST_CASE_METHOD(CompareFixture, "compare names a rank that all others wait for") {
  const auto even = nlohmann::json::parse(compare({"--json"}).out).at("phase_seconds_by_rank");
  REQUIRE(even.size() == 2);
  CHECK(even[0] == even[1]);
  CHECK_THAT(compare({}).out, !ContainsSubstring("as long on rank"));
  write_run(1.1);
  const auto uneven = nlohmann::json::parse(compare({"--json"}).out).at("phase_seconds_by_rank");
  CHECK(uneven[0] == even[0]);
  CHECK(uneven[1].get<double>() == Approx(1.1 * even[1].get<double>()).epsilon(1e-3));
  CHECK_THAT(compare({}).out, ContainsSubstring("took 1.10 times as long on rank 1 as on rank 0"));
}

TEST_CASE_METHOD(CompareFixture, "compare shows the time of issuing if a host issues") {
  CHECK_THAT(compare({}).out, !ContainsSubstring("issued by the host"));
  Platform gpus = platform;
  gpus.backend = "cuda";
  constexpr Seconds kIssue = 2e-6;
  gpus.issue[Lane::Compute] = kIssue;
  write_file_atomically(folder.file("platform.json"), to_json(gpus));
  CHECK_THAT(compare({}).out, ContainsSubstring("issued by the host"));
  int issued = 0;
  const auto json = nlohmann::json::parse(compare({"--json"}).out);
  for (const auto& operation : json.at("operations")) {
    const bool is_issued = operation.contains("predicted_issue_seconds");
    CHECK(is_issued == (operation.at("lane") == "compute"));
    if (!is_issued) continue;
    CHECK(operation.at("predicted_issue_seconds").get<double>() >=
          kIssue * operation.at("count").get<int>() * (1 - 1e-9));
    CHECK(operation.at("measured_issue_seconds") == 0);
    ++issued;
  }
  CHECK(issued >= 2);
}

TEST_CASE_METHOD(CompareFixture, "compare exits with 4 outside the tolerance, and only there") {
  CHECK(compare({"--tolerance", "21%"}).exit_code == 0);
  CHECK(compare({"--tolerance", "0.21"}).exit_code == 0);
  const ProgramResult outside = compare({"--tolerance", "19%"});
  CHECK(outside.exit_code == 4);
  CHECK_THAT(outside.err, ContainsSubstring("20.0 % off"));
}

TEST_CASE_METHOD(CompareFixture,
                 "compare takes the median, with warm-up steps only if there are no others") {
  write_metrics({9, 9, 1, 3, 2, 4});
  const auto step = nlohmann::json::parse(compare({"--json"}).out).at("step_seconds");
  const Seconds slowed = kSlowdown * timeline.step_seconds;
  CHECK(step.at("measured").get<double>() == Approx(2.5 * slowed));
  CHECK(step.at("measured_low").get<double>() == Approx(1.3 * slowed));
  CHECK(step.at("measured_high").get<double>() == Approx(3.7 * slowed));
  write_metrics({9, 7});
  CHECK(nlohmann::json::parse(compare({"--json"}).out)
            .at("step_seconds")
            .at("measured")
            .get<double>() == Approx(8 * kSlowdown * timeline.step_seconds));
}

TEST_CASE_METHOD(CompareFixture, "broken metrics are named by file and line") {
  const auto refused = [&](const std::string& lines, const std::string& says) {
    write_file_atomically(folder.file("metrics.jsonl"), lines);
    const ProgramResult result = compare({});
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(says));
  };
  refused("", "holds no step");
  refused("{}\n", "metrics.jsonl:1");
  refused("{\"time_metrics/end_to_end(s)\": 1, \"memory/device_peak_bytes\": 1}\n{\"time\n",
          "metrics.jsonl:2");
  refused("{\"time_metrics/end_to_end(s)\": \"fast\", \"memory/device_peak_bytes\": 1}\n",
          "time_metrics");
}

TEST_CASE_METHOD(CompareFixture, "a last line that is being written is left out") {
  write_metrics({9, 9, 1, 3});
  const std::string whole = compare({"--json"}).out;
  const std::string lines = read_any_file(folder.file("metrics.jsonl"));
  write_file_atomically(folder.file("metrics.jsonl"), lines + lines.substr(0, 20));
  CHECK(compare({"--json"}).out == whole);
}

TEST_CASE_METHOD(CompareFixture, "a run folder without its trace is refused") {
  std::filesystem::remove(folder.file("measured.trace.json"));
  const ProgramResult result = compare({});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("measured.trace.json"));
}

}  // namespace athanor::test
