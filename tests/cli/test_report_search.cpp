// SPDX-License-Identifier: Apache-2.0
// Tests athanor report on what athanor tune printed.
#include "tests/cli/page_data.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

namespace athanor::test {
namespace {

struct SearchPageFixture : SimFixture {
  /// Tunes with `more`, writes what was printed, and returns it.
  [[nodiscard]] nlohmann::json tuned(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const ProgramResult result = run("tune", more);
    REQUIRE(result.exit_code == 0);
    write_file_atomically(folder.file("search.json"), result.out);
    return nlohmann::json::parse(result.out);
  }

  [[nodiscard]] nlohmann::json page(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "report");
    arguments.insert(arguments.end(), {"-o", folder.file("page.html")});
    const ProgramResult result = run_program("athanor-sim", arguments);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return page_parts(folder.file("page.html")).data;
  }
};

}  // namespace

TEST_CASE_METHOD(SearchPageFixture, "a search's page has all that tune printed") {
  const std::string all = folder.file("all.jsonl");
  const nlohmann::json result =
      tuned({"--top", "3", "--pareto", "--sensitivity", "--all", all, "--micro-batch", "2"});
  const nlohmann::json data = page({folder.file("search.json"), "--all", all});
  CHECK(data.at("kind") == "search");
  CHECK(data.at("result") == result);
  const nlohmann::json& plans = data.at("candidates").at("plans");
  const std::string text = read_text_file(all);
  CHECK(plans.at(0) == nlohmann::json::parse(text.substr(0, text.find('\n'))));
  std::size_t total = 0;
  for (const auto& [outcome, count] : data.at("candidates").at("counts").items()) {
    total += count.get<std::size_t>();
  }
  CHECK(total == static_cast<std::size_t>(std::ranges::count(text, '\n')));
  CHECK(page({all}).at("candidates") == data.at("candidates"));
}

TEST_CASE_METHOD(SearchPageFixture, "the page of platforms has the rows that tune printed") {
  const nlohmann::json result = tuned({"--micro-batch", "2", "--price", "platform=2"});
  const nlohmann::json data = page({folder.file("search.json")});
  CHECK(data.at("kind") == "platforms");
  CHECK(data.at("platforms") == result.at("platforms"));
}

}  // namespace athanor::test
