// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/model/enum_names.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace athanor {
namespace {

using test::sample_platform;
using test::sample_platform_with_contention;

void read(const std::string& text) { (void)parse_platform(text, "input.json"); }

TEST_CASE("a platform is read back as it was written") {
  const std::string text = to_json(sample_platform());
  const Platform platform = parse_platform(text, "input.json");
  CHECK(to_json(platform) == text);
  CHECK(platform.device_memory == 40 * kGiB);
  CHECK(platform.cpu_adam.at(8).points[1].seconds == test::kAwkward * 8);
  CHECK(platform.issue.at(Lane::Compute) == 6e-6);
  CHECK(platform.shared[0].use.at(Lane::CpuAdam) == 28 * test::kAwkward);
  CHECK(platform.shared[1].scope == SharedResource::Scope::Device);
}

TEST_CASE("a broken platform is refused by key") {
  test::check_rejects(to_json(sample_platform()),
                      {{"/schema", "\"athanor.platform/0\"", "schema"},
                       {"/schema", "\"athanor.platform/5\"", "schema"},
                       {"/disturbances", "[]", "disturbances"},
                       {"/schema", "1", "schema"},
                       {"/name", "", "name"},
                       {"/typo", "{}", "typo"},
                       {"/backend", "\"rocm\"", "backend"},
                       {"/num_devices", "0", "num_devices"},
                       {"/num_devices", "4294967297", "num_devices"},
                       {"/device_memory", "\"40GiB\"", "device_memory"},
                       {"/device_memory", "-1", "device_memory"},
                       {"/device_memory", "1e30", "device_memory"},
                       {"/matmul_flops_per_second", "0", "matmul_flops_per_second"},
                       {"/matmul_flops_per_second", "Infinity", "matmul_flops_per_second"},
                       {"/matmul_flops_per_second", "1e25", "matmul_flops_per_second"},
                       {"/h2d", "3", "h2d"},
                       {"/h2d/1/size", "1024", "h2d[1].size"},
                       {"/h2d/0/size", "-1", "h2d[0].size"},
                       {"/h2d/0/seconds", "-1e-6", "h2d[0].seconds"},
                       {"/d2h_add/0/seconds", "-1e-6", "d2h_add[0].seconds"},
                       {"/h2d/0/spread", "", "h2d[0].spread"},
                       {"/h2d/0/bytes", "3", "h2d[0].bytes"},
                       {"/all_gather/1/world_size", "1", "all_gather[1].world_size"},
                       {"/all_gather/1/curve/0/size", "true", "all_gather[1].curve[0].size"},
                       {"/cpu_adam/1/threads", "1", "cpu_adam[1].threads"},
                       {"/cpu_adam_beside/0/threads", "0", "cpu_adam_beside[0].threads"},
                       {"/issue/h2d", "-1e-6", "issue.h2d"},
                       {"/issue/cpu-adam", "1e-6", "issue.cpu-adam"},
                       {"/issue/nccl", "1e-6", "issue.nccl"},
                       {"/shared/0/capacity", "0", "shared[0].capacity"},
                       {"/shared/0/use/h2d", "40e9", "shared[1].use.h2d"},
                       {"/shared/0/use/h2d", "-40e9", "shared[0].use.h2d"},
                       {"/shared/0/use/nvme", "1", "shared[0].use.nvme"},
                       {"/shared/0/scope", "\"rack\"", "shared[0].scope"},
                       {"/shared/1/name", "\"host memory\"", "shared[1].name"},
                       {"/network/max_nodes", "0", "network.max_nodes"},
                       {"/network/nics", "0.5", "network.nics"},
                       {"/network/bytes_per_second", "0", "network.bytes_per_second"},
                       {"/network/latency", "-1e-6", "network.latency"},
                       {"/network/links/0/ranks", "0", "network.links[0].ranks"},
                       {"/network/links/1/ranks", "1", "network.links[1].ranks"},
                       {"/network/links/0/curve", "[]", "network.links[0].curve"},
                       {"/network/links/0/rate", "1", "network.links[0].rate"},
                       {"/network/topology", "\"torus\"", "network.topology"},
                       {"/provenance", "null", "provenance"}},
                      read);
}

TEST_CASE("measured contention is read back, and refused by key where it is broken") {
  const std::string text = to_json(sample_platform_with_contention());
  CHECK(to_json(parse_platform(text, "input.json")) == text);
  test::check_rejects(
      text,
      {{"/contention/0/ranks", "0", "contention[0].ranks"},
       {"/contention/1/ranks", "5", "contention[1].ranks"},
       {"/contention/0/slowdown", "{}", "contention[0].slowdown"},
       {"/contention/0/slowdown/h2d", "0", "contention[0].slowdown.h2d"},
       {"/contention/0/slowdown/nvme", "2", "contention[0].slowdown.nvme"},
       {"/contention/0/load", "1", "contention[0].load"},
       {"/contention/0/d2h_adds", "true", "contention[0].d2h_adds"},
       {"/contention/2/d2h_adds", "1", "contention[2].d2h_adds"},
       {"/contention/0", R"({"ranks": 4, "slowdown": {"h2d": 3}})", "contention[1].slowdown"},
       {"/shared", R"([{"name": "m", "scope": "node", "capacity": 1, "use": {"h2d": 1}}])",
        "contention[0].slowdown.h2d"}},
      read);
}

TEST_CASE("pooled rates are read back, and refused by key where they are broken") {
  Platform platform = sample_platform();
  platform.processor = "a processor";
  platform.pooled[Lane::CpuAdam] = {
      1.0 / 3, 0, 0.08, {{"2026-11-20", test::kAwkward, 1, 0.01}, {"2026-11-19", 1, 1.5, 0}}};
  const std::string text = to_json(platform);
  CHECK(to_json(parse_platform(text, "input.json")) == text);
  test::check_rejects(text,
                      {{"/processor", "7", "processor"},
                       {"/pooled/0/lane", "\"h2d\"", "pooled[0].lane"},
                       {"/pooled/0/lane", "\"nvme\"", "pooled[0].lane"},
                       {"/pooled/0/factor", "0", "pooled[0].factor"},
                       {"/pooled/0/between", "-1", "pooled[0].between"},
                       {"/pooled/0/spread", "0", "pooled[0].spread"},
                       {"/pooled/0/looks", "[]", "pooled[0].looks"},
                       {"/pooled/0/looks/0/ratio", "1.5", "pooled[0].looks[0].ratio"},
                       {"/pooled/0/looks/1/ratio", "0", "pooled[0].looks[1].ratio"},
                       {"/pooled/0/looks/1/seconds", "0", "pooled[0].looks[1].seconds"},
                       {"/pooled/0/looks/1/scatter", "-1", "pooled[0].looks[1].scatter"},
                       {"/pooled/0/looks/1/typo", "1", "pooled[0].looks[1].typo"},
                       {"/cpu_adam", "[]", "pooled[0]"}},
                      read);
}

TEST_CASE("platforms of schema 1 are read, with contention under its old key") {
  const std::string text = to_json(sample_platform_with_contention());
  nlohmann::json old = nlohmann::json::parse(text);
  old["schema"] = "athanor.platform/1";
  old["disturbances"] = {{{"first", "h2d"}}};
  CHECK_THROWS_AS(parse_platform(old.dump(), "input.json"), InputError);
  old["interference"] = old["contention"];
  old.erase("contention");
  CHECK(to_json(parse_platform(old.dump(), "input.json")) == text);
}

TEST_CASE("a truncated platform is refused") {
  test::check_rejects_truncated(to_json(sample_platform()), read);
}

TEST_CASE("a curve is linear between its points and goes on beyond the last") {
  const Curve curve{{{10, 1, 0}, {20, 3, 0}, {40, 4, 0}}};
  CHECK(curve.at(0) == 1);
  CHECK(curve.at(10) == 1);
  CHECK(curve.at(15) == 2);
  CHECK(curve.at(20) == 3);
  CHECK(curve.at(30) == 3.5);
  CHECK(curve.at(40) == 4);
  CHECK(curve.at(80) == 6);
  CHECK(Curve{}.at(5) == 0);
  CHECK((Curve{{{10, 2, 0}}}.at(100)) == 2);
  CHECK((Curve{{{10, 2, 0}, {20, 1, 0}}}.at(100)) == 1);
}

TEST_CASE("every platform file of the tree is valid and says where its figures come from") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATHANOR_SOURCE_DIR "/platforms")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path());
    const Platform platform = read_platform(entry.path());
    CHECK(to_json(parse_platform(to_json(platform), "again")) == to_json(platform));
    CHECK_FALSE(platform.provenance.notes.empty());
    CHECK(platform.all_gather.size() == platform.all_reduce.size());
    ++count;
  }
  CHECK(count >= 19);
}

template <typename Table>
std::size_t distinct_names(const Table& table) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : table) {
    names.insert(name);
    CHECK(name_of(table, value) == name);
  }
  return names.size();
}

TEST_CASE("every lane, tier and kind of operation has a name of its own") {
  CHECK(distinct_names(kLaneNames) == kLanes.size());
  CHECK(distinct_names(kTierNames) == kTiers.size());
  CHECK(distinct_names(kOpKindNames) == static_cast<std::size_t>(OpKind::ActivationReduce) + 1);
  CHECK(std::string(lane_name(Lane::CpuAdam)) == "cpu-adam");
  CHECK(std::string(op_kind_name(OpKind::AdamRollback)) == "adam-rollback");
}

}  // namespace
}  // namespace athanor
