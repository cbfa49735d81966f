// SPDX-License-Identifier: Apache-2.0
// nvbandwidth and nccl-tests: bandwidths become times, and measured slowdowns become shared
// resources that reproduce them.
#include "sim/benchmarks/import_benchmarks.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

json test_case(const std::string& name, const std::vector<std::string>& gigabytes) {
  return {{"name", name},
          {"status", "Passed"},
          {"bandwidth_matrix", json::array({gigabytes})},
          {"sum", 0},
          {"bandwidth_description", "(GB/s)"}};
}

/// Returns results as nvbandwidth 0.8 writes them, with numbers as text.
json nvbandwidth() {
  return {{"nvbandwidth",
           {{"CUDA Runtime Version", 12080},
            {"GPU Device list", {"0: NVIDIA A100 (00000000:07:00): (node)"}},
            {"version", "v0.8"},
            {"testcases",
             json::array({test_case("host_to_device_memcpy_ce", {"24.00", "20.00"}),
                          test_case("device_to_host_memcpy_ce", {"25.00", "26.00"}),
                          {{"name", "device_to_device_memcpy_read_ce"}, {"status", "Waived"}},
                          test_case("host_to_device_bidirectional_memcpy_ce", {"16.00", "16.00"}),
                          test_case("device_to_host_bidirectional_memcpy_ce", {"20.00", "20.00"}),
                          test_case("host_to_all_memcpy_ce", {"15.00", "15.00"}),
                          test_case("all_to_host_memcpy_ce", {"25.00", "25.00"})})}}}};
}

/// Returns results as nccl-tests 2.19 writes them with MPI: two processes of one thread and two
/// GPUs each.
json nccl_tests(const std::string& program, double microseconds, double bus_passes) {
  json results = json::array();
  for (const double bytes : {1048576.0, 4194304.0, 0.0, 1048576.0}) {
    const double algorithm = bytes == 0 ? 0 : bytes / (microseconds * 1e-6) / 1e9;
    json timing{{"time", microseconds},
                {"alg_bw", algorithm},
                {"bus_bw", algorithm * bus_passes * 3 / 4},
                {"nwrong", nullptr}};
    results.push_back({{"size", bytes == 0 ? 0 : static_cast<std::int64_t>(bytes)},
                       {"count", 1},
                       {"type", "float"},
                       {"redop", "none"},
                       {"root", "    -1"},
                       {"out_of_place", timing},
                       {"in_place", timing},
                       {"actual_iterations", 20},
                       {"experiment_name", ""}});
  }
  return {{"version", 3},
          {"args", {"./build/" + program, "-b", "1M"}},
          {"env", json::array()},
          {"nccl_version", 22809},
          {"config", {{"nthreads", 1}, {"ngpus", 2}, {"devices", {{{"rank", 0}}, {{"rank", 2}}}}}},
          {"results", results},
          {"errors", json::array()}};
}

Platform sample() {
  Platform platform = test::sample_platform();
  platform.num_devices = 4;
  platform.shared.clear();
  platform.network.reset();
  return platform;
}

void import_json(const json& document, Platform& platform) {
  import_benchmark(document.dump(), "input.json", platform);
  platform.validate("output.json");
}

const SharedResource* find(const Platform& platform, const std::string& name) {
  const auto found =
      std::find_if(platform.shared.begin(), platform.shared.end(),
                   [&](const SharedResource& resource) { return resource.name == name; });
  return found == platform.shared.end() ? nullptr : &*found;
}

/// Returns the part of its speed alone that each lane gets while `ranks` run all lanes of the
/// resource and nothing else. Shares are equal.
double share_of(const SharedResource& resource, Lane lane, int ranks) {
  const auto flows = static_cast<double>(ranks) * static_cast<double>(resource.use.size());
  return std::min(1.0, resource.capacity / flows / resource.use.at(lane));
}

TEST_CASE("nvbandwidth gives the slowest device's bandwidth, and the former start-up time stays") {
  Platform platform = sample();
  const Seconds startup = platform.h2d.points.front().seconds;
  import_json(nvbandwidth(), platform);
  constexpr double kBuffer = 512.0 * 1024 * 1024;
  CHECK(platform.h2d.at(kBuffer) == Approx(kBuffer / 20e9));
  CHECK(platform.d2h.at(kBuffer) == Approx(kBuffer / 25e9));
  CHECK(platform.h2d.at(1) == startup);
  CHECK_THAT(platform.provenance.notes, ContainsSubstring("nvbandwidth v0.8 (input.json"));
}

TEST_CASE("resources from nvbandwidth reproduce the measured slowdowns of copies") {
  Platform platform = sample();
  import_json(nvbandwidth(), platform);
  const SharedResource* both = find(platform, "h2d + d2h");
  REQUIRE(both != nullptr);
  CHECK(both->scope == SharedResource::Scope::Device);
  CHECK(1 / share_of(*both, Lane::H2D, 1) == Approx(20.0 / 16));
  CHECK(1 / share_of(*both, Lane::D2H, 1) == Approx(25.0 / 20));
  const SharedResource* all = find(platform, "h2d on 2 ranks");
  REQUIRE(all != nullptr);
  CHECK(all->scope == SharedResource::Scope::Node);
  CHECK(1 / share_of(*all, Lane::H2D, 2) == Approx(20.0 / 15));
  CHECK(find(platform, "d2h on 2 ranks") == nullptr);  // no slowdown
}

TEST_CASE(
    "uses of resources that copies share with others scale with nvbandwidth, and those of copies "
    "alone are replaced") {
  Platform platform = sample();
  const double former = platform.h2d.at(512.0 * 1024 * 1024) / (512.0 * 1024 * 1024);
  platform.shared = {
      {"memory", SharedResource::Scope::Node, 9e9, {{Lane::H2D, 4e9}, {Lane::CpuAdam, 8e9}}},
      {"bridge", SharedResource::Scope::Node, 5e9, {{Lane::H2D, 4e9}}},
      {"both", SharedResource::Scope::Device, 5e9, {{Lane::H2D, 4e9}, {Lane::D2H, 4e9}}}};
  import_json(nvbandwidth(), platform);
  CHECK(find(platform, "bridge") == nullptr);
  CHECK(find(platform, "both") == nullptr);
  const SharedResource* memory = find(platform, "memory");
  REQUIRE(memory != nullptr);
  CHECK(memory->capacity == 9e9);
  CHECK(memory->use.at(Lane::H2D) == Approx(4e9 * 20e9 * former));
  const SharedResource* all = find(platform, "h2d on 2 ranks");
  REQUIRE(all != nullptr);
  CHECK(1 / share_of(*all, Lane::H2D, 2) == Approx(20.0 / 15));
}

TEST_CASE("contention samples are replaced where nvbandwidth measured the same lanes") {
  Platform platform = test::sample_platform_with_contention();
  import_json(nvbandwidth(), platform);
  CHECK(platform.shared.empty());
  std::map<std::string, std::map<Lane, double>> slowdowns;
  for (const ContentionSample& load : platform.contention)
    slowdowns[sample_name(load)] = load.slowdown;
  CHECK(slowdowns.at("h2d + d2h").at(Lane::H2D) == Approx(20.0 / 16));
  CHECK(slowdowns.at("h2d on 2 ranks").at(Lane::H2D) == Approx(20.0 / 15));
  CHECK(slowdowns.at("h2d + cpu-adam").at(Lane::H2D) == 1.5);
  CHECK(slowdowns.at("h2d on 4 ranks").at(Lane::H2D) == 2);
}

TEST_CASE("nccl-tests gives sizes of the whole buffer, microseconds, and ranks by process") {
  for (const auto& [program, passes] : {std::pair<std::string, double>{"all_gather_perf", 1},
                                        {"reduce_scatter_perf", 1},
                                        {"all_reduce_perf", 2}}) {
    CAPTURE(program);
    Platform platform = sample();
    import_json(nccl_tests(program, 80, passes), platform);
    const auto& curves = program == "all_gather_perf"       ? platform.all_gather
                         : program == "reduce_scatter_perf" ? platform.reduce_scatter
                                                            : platform.all_reduce;
    const auto four = std::find_if(curves.begin(), curves.end(),
                                   [](const auto& curve) { return curve.world_size == 4; });
    REQUIRE(four != curves.end());
    REQUIRE(four->curve.points.size() == 2);
    CHECK(four->curve.at(1048576) == Approx(80e-6));
    // The file's busbw = passes x 3/4 x bytes / time.
    CHECK(4194304 / four->curve.at(4194304) / 1e9 * passes * 3 / 4 ==
          Approx(nccl_tests(program, 80, passes)["results"][1]["in_place"]["bus_bw"]));
    CHECK_THAT(platform.provenance.notes, ContainsSubstring("NCCL 2.28.9"));
  }
}

TEST_CASE("results of nccl-tests on several nodes need a platform with a network") {
  Platform platform = sample();
  platform.num_devices = 2;  // 2 of the four ranks
  CHECK_THROWS_WITH(import_json(nccl_tests("all_gather_perf", 80, 1), platform),
                    ContainsSubstring("4 ranks, and platform node has 2 devices"));
  platform.network = Network{.max_nodes = 2, .bytes_per_second = 25e9};
  import_json(nccl_tests("all_gather_perf", 80, 1), platform);
  CHECK(platform.all_gather.back().world_size == 4);
}

TEST_CASE("broken benchmark results are refused with the key") {
  const auto read = [](const std::string& text) {
    Platform platform = sample();
    import_benchmark(text, "input.json", platform);
  };
  const std::string tests = "nvbandwidth.testcases";
  test::check_rejects(
      nvbandwidth().dump(),
      {{"/nvbandwidth/testcases", "", tests},
       {"/nvbandwidth/testcases", "[]", tests},
       {"/nvbandwidth/testcases/0/name", "3", tests + "[0].name"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix", "", tests + "[0].bandwidth_matrix"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix", "[]", tests + "[0].bandwidth_matrix"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix", "[[]]", tests + "[0].bandwidth_matrix"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0/0", "\"none\"",
        tests + "[0].bandwidth_matrix[0][0]"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0/0", "\"-1\"",
        tests + "[0].bandwidth_matrix[0][0]"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0/0", "\"nan\"",
        tests + "[0].bandwidth_matrix[0][0]"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0/0", "\"1e400\"",
        tests + "[0].bandwidth_matrix[0][0]"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0/0", "24",
        tests + "[0].bandwidth_matrix[0][0]"},
       {"/nvbandwidth/testcases/0/bandwidth_matrix/0", "[\"1\",\"1\",\"1\",\"1\",\"1\"]", tests}},
      read);
  const std::string first = "results[0].in_place";
  test::check_rejects(nccl_tests("all_gather_perf", 80, 1).dump(),
                      {{"/args", "[]", "args"},
                       {"/args/0", "\"./sendrecv_perf\"", "args[0]"},
                       {"/config", "", "config"},
                       {"/config/nthreads", "0", "config.nthreads"},
                       {"/config/ngpus", "1000000", "config"},
                       {"/config/ngpus", "4", "config"},
                       {"/results", "[]", "results"},
                       {"/results/0/size", "-1", "results[0].size"},
                       {"/results/0/in_place/time", "\"nan\"", first + ".time"},
                       {"/results/0/in_place/time", "-80.0", first + ".time"},
                       {"/results/0/in_place/time", "0", first + ".time"},
                       {"/results/0/in_place/alg_bw", "99.0", first + ".alg_bw"},
                       {"/results/0/in_place/bus_bw", "99.0", first + ".bus_bw"},
                       {"/results/0/in_place", "{\"cpu_time\": 5.0}", first + ".cpu_time"}},
                      read);
  test::check_rejects_truncated(nvbandwidth().dump(), read);
  CHECK_THROWS_AS(read("{}"), InputError);
  CHECK_THROWS_AS(read("[]"), InputError);
}

}  // namespace
}  // namespace athanor
