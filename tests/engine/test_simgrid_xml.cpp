// SPDX-License-Identifier: Apache-2.0
// SimGrid itself loads the exported platform and shares its links as the file says.
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/interchange/export_simgrid.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <simgrid/s4u.hpp>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace athanor {
namespace {

namespace sg = simgrid::s4u;
using Catch::Approx;

/// Returns a platform of two devices: a host bridge for both, and on each a link that both
/// directions share.
Platform make_platform() {
  Platform platform = test::synthetic_platform(2);
  platform.shared = {
      {"bridge <& \"up\">", SharedResource::Scope::Node, 9e9, {{Lane::H2D, 6e9}}},
      {"both ways", SharedResource::Scope::Device, 8e9, {{Lane::H2D, 6e9}, {Lane::D2H, 5e9}}},
      {"cores", SharedResource::Scope::Device, 3, {{Lane::Compute, 2}, {Lane::CpuAdam, 2}}}};
  platform.shared.push_back({"memory", SharedResource::Scope::Node, 1e12, {{Lane::D2H, 5e9}}});
  return platform;
}

/// Loads the platform into this process's only engine.
class Loaded {
 public:
  explicit Loaded(const Platform& platform)
      : path_(std::filesystem::temp_directory_path() /
              ("athanor-platform-" + std::to_string(getpid()) + ".xml")) {
    write_file_atomically(path_, export_simgrid(platform));
    std::string name = "test";
    std::array<char*, 2> arguments{name.data(), nullptr};
    int count = 1;
    engine_ = std::make_unique<sg::Engine>(&count, arguments.data());
    engine_->load_platform(path_);
  }
  ~Loaded() { std::filesystem::remove(path_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  [[nodiscard]] sg::Host* host(const std::string& name) const {
    return engine_->host_by_name(name);
  }

  void send(const std::string& from, const std::string& to, double amount) {
    sg::CommPtr comm = sg::Comm::sendto_init(host(from), host(to));
    comm->set_payload_size(static_cast<std::uint64_t>(amount));
    comm->start();
    sent_.push_back(comm);
  }

  /// Returns the seconds until each transfer ended, in the order of send().
  [[nodiscard]] std::vector<double> run() {
    engine_->run();
    std::vector<double> ends;
    for (const sg::CommPtr& comm : sent_) ends.push_back(comm->get_finish_time());
    return ends;
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<sg::Engine> engine_;
  std::vector<sg::CommPtr> sent_;
};

TEST_CASE("a transfer alone takes the lane's own rate") {
  const Platform platform = make_platform();
  Loaded loaded(platform);
  CHECK(loaded.host("gpu-1")->get_speed() == platform.matmul_flops_per_second);
  CHECK(loaded.host("host")->get_core_count() == platform.host_cores);
  loaded.send("host", "gpu-0", 6e9);
  CHECK(loaded.run().front() == Approx(1.0));
}

TEST_CASE("transfers share the bridge of the node and the link of their device") {
  Loaded loaded(make_platform());
  // The first device's own link halves, 4 to each direction; the bridge has 5 left for the second.
  loaded.send("host", "gpu-0", 4e9);
  loaded.send("gpu-0", "host", 4e9);
  loaded.send("host", "gpu-1", 5e9);
  for (const double end : loaded.run()) CHECK(end == Approx(1.0));
}

TEST_CASE("compute and CPU Adam share what the file says on each device") {
  Loaded loaded(make_platform());
  loaded.send("gpu-0", "gpu-0.compute", 3);
  loaded.send("host", "gpu-0.cpu-adam", 3);
  loaded.send("gpu-1", "gpu-1.compute", 4);
  for (const double end : loaded.run()) CHECK(end == Approx(2.0));
}

TEST_CASE("a lane that shares nothing has its curve's rate") {
  Loaded loaded(make_platform());
  loaded.send("gpu-0", "gpu-1", 3e9);  // all-gather over two ranks: 3 GB/s
  CHECK(loaded.run().front() == Approx(1.0));
}

TEST_CASE("more devices than a routing table supports are refused") {
  Platform platform = make_platform();
  platform.num_devices = 257;
  CHECK_THROWS_AS(export_simgrid(platform), InputError);
}

}  // namespace
}  // namespace athanor
