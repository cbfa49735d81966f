// SPDX-License-Identifier: Apache-2.0
// Tests athanor report on runs and plans: what a page says, what it may hold, and what is refused.
#include "cli/report/page.hpp"
#include "cli/report/series.hpp"
#include "sim/model/memory.hpp"
#include "tests/cli/page_data.hpp"
#include "tests/cli/run_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

constexpr std::uintmax_t kMostPageBytes = 3'000'000;

struct ReportFixture : RunFixture {
  [[nodiscard]] ProgramResult report(const std::string& input,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"report", input};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  }

  [[nodiscard]] PageParts page(const std::string& input,
                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"-o", folder.file("page.html")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = report(input, arguments);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.out == folder.file("page.html") + "\n");
    return page_parts(folder.file("page.html"));
  }

  /// Options that name the fixture's machine and profile for its plan.
  [[nodiscard]] std::vector<std::string> inputs() const {
    return {"--profile", folder.file("profile.json"), "--platform", folder.file("platform.json")};
  }
};

nlohmann::json printed(const std::vector<std::string>& arguments) {
  return nlohmann::json::parse(run_program("athanor-sim", arguments).out);
}

/// Fixture with a run of 2,000 steps of a model of 34 units on eight ranks.
struct LongRunFixture : ReportFixture {
  static constexpr int kSteps = 2000;
  LongRunFixture() {
    profile = synthetic_profile(load_architecture("gpt2-4b"), 1024, {1});
    platform = synthetic_platform(8);
    platform.device_memory = 100 * kGiB;
    platform.host_memory = 1000 * kGiB;
    plan = make_policy_plan("fsdp2-offload", profile, platform, {.num_gpus = 8, .global_batch = 8});
    write_run();
    std::string lines;
    for (int step = 1; step <= kSteps; ++step) {
      const double wave = std::sin(step * 0.7);
      lines += nlohmann::json{{"step", step},
                              {"loss_metrics/global_avg_loss", 3 + wave / 7},
                              {"grad_norm", 1 + wave / 3},
                              {"lr", 1e-3 / step},
                              {"throughput(tps)", 1000 + wave},
                              {kStepSeconds, timeline.step_seconds * (1 + wave / 9)},
                              {"memory/device_peak_bytes", timeline.peak_bytes.gpu}}
                   .dump() +
               "\n";
    }
    write_file_atomically(folder.file("metrics.jsonl"), lines);
  }
  static constexpr const char* kStepSeconds = "time_metrics/end_to_end(s)";
};

}  // namespace

TEST_CASE_METHOD(ReportFixture, "a run's page has the numbers of compare and simulate") {
  const nlohmann::json data = page(folder.path()).data;
  CHECK(data.at("kind") == "run");
  CHECK(data.at("comparison") == printed({"compare", folder.path(), "--json"}));
  std::vector<std::string> simulate{"simulate", "--plan", folder.file("plan.json"), "--sensitivity",
                                    "--json"};
  for (const std::string& option : inputs()) simulate.push_back(option);
  const nlohmann::json simulated = printed(simulate);
  CHECK(data.at("critical_path") == simulated.at("critical_path"));
  CHECK(data.at("sensitivity") == simulated.at("sensitivity"));
  const nlohmann::json& steps = data.at("series").at("step_seconds");
  CHECK(steps.at("x") == nlohmann::json{1, 2, 3, 4, 5});
  CHECK(steps.at("y").at(4).get<double>() == Approx(kSlowdown * timeline.step_seconds));
}

TEST_CASE_METHOD(ReportFixture, "a run's timelines have each operation twice, slowed as measured") {
  const nlohmann::json lines = page(folder.path()).data.at("timelines");
  const Program program = lower(profile, plan);
  const auto num_operations = program.operations.size();
  REQUIRE(lines.at("operations").at("name").size() == num_operations);
  CHECK(lines.at("operations").at("name").at(7) == program.name(7));
  CHECK(lines.at("measured").size() == 2);
  const nlohmann::json& predicted = lines.at("predicted").at(0);
  const nlohmann::json& measured = lines.at("measured").at(0);
  REQUIRE(predicted.at("operation").size() == num_operations);
  for (std::size_t i = 0; i < num_operations; ++i) {
    CHECK(measured.at("operation").at(i) == predicted.at("operation").at(i));
    for (const char* end : {"start", "end"}) {
      constexpr double kRounding = 0.2;  // microseconds
      CHECK(measured.at(end).at(i).get<double>() ==
            Approx(kSlowdown * predicted.at(end).at(i).get<double>()).margin(kRounding));
    }
  }
}

TEST_CASE_METHOD(ReportFixture, "a run's memory over a step peaks where the plan's does") {
  const nlohmann::json memory = page(folder.path()).data.at("memory");
  for (const char* side : {"predicted", "measured"}) {
    const auto levels = memory.at(side).at("y").get<std::vector<double>>();
    CHECK(std::ranges::max(levels) == static_cast<double>(timeline.peak_bytes.gpu));
  }
}

TEST_CASE_METHOD(ReportFixture, "a plan's page has the numbers of simulate and show") {
  const nlohmann::json data = page(folder.file("plan.json"), inputs()).data;
  CHECK(data.at("kind") == "plan");
  std::vector<std::string> simulate{"simulate", "--plan", folder.file("plan.json"), "--sensitivity",
                                    "--json"};
  for (const std::string& option : inputs()) simulate.push_back(option);
  CHECK(data.at("result") == printed(simulate));
  CHECK(data.at("memory") == printed({"show", "memory", folder.file("plan.json"), "--profile",
                                      folder.file("profile.json"), "--as", "json"}));
  CHECK(data.at("units").size() == plan.units.size());
  CHECK(data.at("timelines").at("measured").empty());
}

TEST_CASE_METHOD(LongRunFixture, "a page counts tokens of the ranks that the last plan has") {
  const std::string path = folder.file("metrics.jsonl");
  const nlohmann::json of_one_rank{
      {"step", 0}, {"time_metrics/end_to_end(s)", 1}, {"throughput(tps)", 5},
      {"lr", 1},   {"predicted_step_seconds", 77},    {"memory/device_peak_bytes", 1}};
  write_file_atomically(path, of_one_rank.dump() + "\n" + read_text_file(path));
  const nlohmann::json data = page(folder.path()).data;
  CHECK(data.at("series").at("learning_rate").at("points") == kSteps + 1);
  CHECK(data.at("series").at("tokens_per_second").at("points") == kSteps);
}

TEST_CASE_METHOD(LongRunFixture, "a page of 2,000 steps on eight ranks is small, and says so") {
  const nlohmann::json data = page(folder.path()).data;
  CHECK(std::filesystem::file_size(folder.file("page.html")) < kMostPageBytes);
  for (const char* name : {"loss", "gradient_norm", "learning_rate", "tokens_per_second"}) {
    const nlohmann::json& series = data.at("series").at(name);
    CHECK(series.at("points") == kSteps);
    CHECK(series.at("x").size() <= 1000);
    CHECK(series.at("x").size() == series.at("y").size());
  }
  const nlohmann::json& lines = data.at("timelines");
  CHECK(lines.at("of_ranks") == 8);
  CHECK(lines.at("ranks") == lines.at("measured").size());
  CHECK(lines.at("shown") == lines.at("operations").at("name").size());
  CHECK(lines.at("of") == lower(profile, plan).operations.size());
}

TEST_CASE_METHOD(ReportFixture, "names from files are text on the page, whatever they hold") {
  const std::string hostile = R"(</script><script>alert('1')</script><!--&"x")";
  platform.name = hostile;
  write_file_atomically(folder.file("platform.json"), to_json(platform));
  const std::string run = folder.file("<b>&\"'");
  std::filesystem::create_directory(run);
  for (const char* name :
       {"plan.json", "profile.json", "platform.json", "metrics.jsonl", "measured.trace.json"}) {
    std::filesystem::copy(folder.file(name), std::filesystem::path(run) / name);
  }
  const PageParts parts = page(run);
  CHECK(parts.data.at("platform") == hostile);
  const std::string whole = read_text_file(folder.file("page.html"));
  CHECK_THAT(whole, !ContainsSubstring("alert('1')</script>") && !ContainsSubstring("<b>&\""));
  CHECK_THAT(parts.rest, ContainsSubstring("<title>Run: &lt;b&gt;&amp;&quot;&#39;</title>"));
  CHECK_THAT(parts.rest, !ContainsSubstring("alert("));
}

TEST_CASE_METHOD(ReportFixture, "a page loads nothing") {
  const PageParts parts = page(folder.path());
  CHECK_THAT(parts.rest, ContainsSubstring("default-src 'none'"));
  for (const char* load : {"http:", "https:", " src=", "url(", "@import", "import(", "fetch("}) {
    CAPTURE(load);
    CHECK(parts.rest.find(load) == std::string::npos);
  }
  CHECK(parts.library.empty() != cli::has_charts());
  if (cli::has_charts()) {
    CHECK_THAT(parts.library, ContainsSubstring("Licensed to the Apache Software Foundation"));
    CHECK_THAT(parts.rest, ContainsSubstring("Apache License 2.0"));
  }
}

TEST_CASE_METHOD(ReportFixture, "a page is written beside what it shows unless it is named") {
  CHECK(report(folder.path()).out ==
        (std::filesystem::path(folder.path()) / "report.html").string() + "\n");
  CHECK(report(folder.file("plan.json"), inputs()).out == folder.file("plan.html") + "\n");
}

TEST_CASE_METHOD(ReportFixture, "what cannot be drawn is refused by name, and nothing is written") {
  const auto refused = [&](const std::string& input, const std::string& says,
                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"-o", folder.file("page.html")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = report(input, arguments);
    CAPTURE(input, result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, ContainsSubstring(says));
    CHECK_FALSE(std::filesystem::exists(folder.file("page.html")));
  };
  const auto written = [&](const std::string& name, const std::string& text) {
    write_file_atomically(folder.file(name), text);
    return folder.file(name);
  };
  refused(folder.file("absent.json"), "absent.json");
  refused(folder.file("platform.json"), "is of the schema \"athanor.platform/");
  refused(written("list.json", "[1]"), "is nothing that athanor report draws");
  refused(written("broken.json", "{"), "broken.json");
  refused(written("search.json", R"({"step_seconds": 1})"), "search.json:tokens_per_second");
  refused(written("search.json", R"({"step_seconds": "x"})"), "search.json:step_seconds");
  refused(written("search.json", R"({"step_seconds": 0})"), "search.json:step_seconds");
  refused(written("rows.json", R"({"platforms": []})"), "rows.json:platforms");
  refused(written("rows.json", R"({"platforms": [{"platform": "a"}]})"),
          "rows.json:platforms[0].gpus");
  refused(written("all.jsonl", R"({"rank": 1, "outcome": "lost"})"), "unknown value 'lost'");
  refused(written("all.jsonl", R"({"rank": 1, "outcome": "simulated"})"),
          "all.jsonl:1:step_seconds");
  refused(folder.file("plan.json"), "--profile: is missing");
  const std::vector<std::string> all{"--all", folder.file("all.jsonl")};
  refused(folder.file("plan.json"), "--all: is for what tune --json printed", all);
  refused(folder.file("all.jsonl"), "--all: is for what tune --json printed", all);
  refused(folder.path(), "--all: is for what tune --json printed", all);
  refused(folder.file("search.json"), "--profile: is for a plan", inputs());
  refused(folder.path(), "--profile: is for a plan", inputs());
  std::filesystem::remove(folder.file("metrics.jsonl"));
  refused(folder.path(), "metrics.jsonl");
}

TEST_CASE_METHOD(ReportFixture, "a page does not replace what it is made from") {
  const std::string plan_path = folder.file("plan.json");
  const ProgramResult result = report(plan_path, {"-o", plan_path});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("is an input"));
  CHECK(read_text_file(plan_path) == to_json(plan));
}

TEST_CASE("text that HTML gives a meaning is escaped") {
  CHECK(cli::escape_html(R"(a<b>&"')") == "a&lt;b&gt;&amp;&quot;&#39;");
  const nlohmann::ordered_json json{{"</script>", "<!-- & \xff \u2028"}};
  const std::string safe = cli::script_safe_json(json);
  for (const char c : {'<', '>', '&'}) CHECK(safe.find(c) == std::string::npos);
  CHECK(nlohmann::json::parse(safe).begin().key() == "</script>");
}

TEST_CASE("a series that is thinned keeps its ends of every group") {
  std::vector<cli::Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), 0});
  CHECK(cli::thinned(points, 1000) == points);
  points[123].y = 5;
  points[777].y = -5;
  const std::vector<cli::Point> kept = cli::thinned(points, 100);
  CHECK(kept.size() <= 100);
  CHECK(std::ranges::find(kept, points[123]) != kept.end());
  CHECK(std::ranges::find(kept, points[777]) != kept.end());
  CHECK(std::ranges::is_sorted(kept, {}, &cli::Point::x));
}

}  // namespace athanor::test
