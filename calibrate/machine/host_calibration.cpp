// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/host_calibration.hpp"

#include "calibrate/activities/activities.hpp"
#include "calibrate/activities/curves.hpp"
#include "calibrate/activities/matmul.hpp"
#include "calibrate/bench/measure.hpp"
#include "calibrate/machine/capacity.hpp"
#include "calibrate/machine/collective_curves.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/machine/pair_contention.hpp"
#include "calibrate/machine/parts.hpp"
#include "executor/backend/collectives_local.hpp"
#include "executor/rendezvous/mpi_launch.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

namespace athanor {
namespace {

/// File that lives as long as this object. Workers write what they measured into it.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string path = (std::filesystem::temp_directory_path() / "athanor-XXXXXX").string();
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) {
      throw Error("cannot create a temporary file like " + path);
    }
    close(descriptor);
    path_ = path;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

CollectiveTimes collectives_between(int ranks, bool quick, const std::string& program) {
  const TemporaryFile file;
  std::vector<std::string> command{program, "collective-worker", "-o", file.path()};
  if (quick) {
    command.emplace_back("--quick");
  }
  const int exit_code = run_under_mpi(ranks, command);
  if (exit_code != 0) {
    throw Error(
        fmt::format("measuring collectives between {} processes failed: mpirun ended "
                    "with {}",
                    ranks, exit_code));
  }
  return parse_collective_times(read_text_file(file.path()));
}

/// Calibrates one part after the other into a Platform.
class Calibration {
 public:
  /// `nodes`: the ranks of a job, which measure collectives; null: this program starts some.
  Calibration(const CalibrationOptions& options, std::string program, NodeBench* nodes = nullptr)
      : options_(options),
        program_(std::move(program)),
        nodes_(nodes),
        measurement_(host_measurement_options(options.quick)),
        compute_threads_(std::max(1, usable_cores() / options.ranks)) {}

  Platform run() {
    describe_machine();
    run_parts(parts(), options_.progress);
    return std::move(platform_);
  }

 private:
  /// Expected times are those of two cores that had much else to do.
  [[nodiscard]] std::vector<CalibrationPart> parts() {
    const auto plain = [](std::string name, Seconds expected, std::function<void()> measure) {
      return CalibrationPart{std::move(name), expected,
                             [measure = std::move(measure)](const auto&) { measure(); }};
    };
    std::vector<CalibrationPart> parts{
        plain(fmt::format("matrix products with {} thread(s)", compute_threads_), 0.3,
              [this] { measure_compute(); }),
        plain("copies", 2, [this] { measure_copies(); }),
        plain("AdamW and sums of squares", 3, [this] { measure_updates(); })};
    for (int ranks = 1; ranks <= options_.ranks; ++ranks) {
      parts.push_back(plain(fmt::format("collectives between {} process(es)", ranks),
                            ranks == 1 ? 1.5 : 6,
                            [this, ranks] { measure_collectives_of(ranks); }));
    }
    if (nodes_ != nullptr) add_network_parts(parts);
    parts.push_back(plain("file reads and writes", 1, [this] {
      measure_storage(options_.folder, measurement_.files, platform_);
    }));
    parts.push_back(plain("contention between lanes", 14, [this] { measure_lane_contention(); }));
    return parts;
  }

  /// Collectives of whole nodes, and links: between the first node and every other, since a ring
  /// crosses them all, with 1, 2, 4, .. ranks at once.
  void add_network_parts(std::vector<CalibrationPart>& parts) {
    const auto [nodes, ranks_per_node] = nodes_->shape();
    for (int count = 2; count <= nodes; ++count) {
      parts.push_back(
          {fmt::format("collectives on {} nodes", count), 6,
           [this, ranks = count * ranks_per_node](const auto&) { measure_collectives_of(ranks); }});
    }
    for (int node = 1; node < nodes; ++node) {
      parts.push_back({fmt::format("links to node {}", node), 2,
                       [this, node](const auto&) { measure_links_to(node); }});
    }
  }

  void measure_links_to(int node) {
    const auto [nodes, ranks_per_node] = nodes_->shape();
    for (int ranks = 1; ranks < ranks_per_node; ranks *= 2) add_link(node, ranks);
    add_link(node, ranks_per_node);
    platform_.network = network_of(links_, nodes);
  }

  void add_link(int node, int ranks) {
    links_.push_back(nodes_->link(node, ranks));
    const Curve& curve = links_.back().curve;
    const Curve::Point& largest = curve.points.back();
    remark(fmt::format("node 0 | node {}, {} rank(s): {:.3f} GB/s each way, {} for {}", node, ranks,
                       ranks * largest.size / largest.seconds / 1e9,
                       format_seconds(curve.points.front().seconds),
                       format_bytes(static_cast<Bytes>(curve.points.front().size))));
  }

  void remark(const std::string& what) const {
    if (options_.remark) options_.remark(what);
  }

  void describe_machine() {
    platform_.device = processor_name();
    platform_.name = fmt::format("{} x {}", usable_cores(), platform_.device);
    platform_.backend = "cpu";
    platform_.num_devices = options_.ranks;
    platform_.host_memory = usable_memory();
    platform_.device_memory = platform_.host_memory / options_.ranks;
    platform_.host_cores = usable_cores();
    platform_.processor = processor_model();
    platform_.provenance = measured_here(options_.command);
    if (options_.described) options_.described(platform_);
  }

  void measure_compute() {
    const auto n = static_cast<double>(measurement_.matrix);
    const Samples samples =
        measure(measurement_.rule, matmul_activity(measurement_.matrix, compute_threads_));
    platform_.matmul_flops_per_second = 2 * n * n * n / samples.median();
  }

  void measure_copies() {
    platform_.h2d = measure_curve(measurement_.copies, measurement_.rule, copy_activity);
    platform_.d2h = measure_curve(measurement_.copies, measurement_.rule, copy_activity);
    platform_.d2h_add = measure_curve(measurement_.copies, measurement_.rule, add_activity);
  }

  void measure_updates() {
    const auto by_threads = [this](const std::function<Activity(std::int64_t, int)>& make) {
      return measure_by_threads(measurement_.elements, platform_.host_cores, measurement_.rule,
                                make);
    };
    platform_.cpu_adam = by_threads(adam_activity);
    platform_.cpu_adam_beside = by_threads(adam_beside_activity);
    platform_.device_adam = measure_curve(
        measurement_.elements, measurement_.rule,
        [this](std::int64_t elements) { return adam_activity(elements, compute_threads_); });
    platform_.host_square_sum =
        measure_curve(measurement_.elements, measurement_.rule, square_sum_activity);
    platform_.device_square_sum = platform_.host_square_sum;
  }

  void measure_collectives_of(int ranks) {
    const CollectiveTimes times = measure_ranks(ranks);
    platform_.all_gather.push_back({ranks, times.all_gather});
    platform_.reduce_scatter.push_back({ranks, times.reduce_scatter});
    platform_.all_reduce.push_back({ranks, times.all_reduce});
    platform_.all_to_all.push_back({ranks, times.all_to_all});
  }

  [[nodiscard]] CollectiveTimes measure_ranks(int ranks) const {
    if (ranks > 1 && nodes_ != nullptr) return nodes_->collectives(ranks);
    if (ranks > 1) {
      return collectives_between(ranks, options_.quick, program_);
    }
    const auto local = make_local_collectives();
    return measure_collectives(*local, measurement_.collectives, measurement_.rule);
  }

  void measure_lane_contention() {
    constexpr int kMostAtOnce = 16;
    const std::vector<PairSlowdown> pairs =
        measure_lane_pairs(compute_threads_, measurement_.pair_rule);
    const int computing = std::max(2, platform_.host_cores / compute_threads_);
    const ConcurrentRun compute =
        measure_concurrent_run(Lane::Compute, computing, compute_threads_, measurement_.pair_rule);
    std::vector<ConcurrentRun> memory = pairs_as_runs(pairs, memory_lanes());
    if (platform_.host_cores > 2) {
      const int moving = std::min(platform_.host_cores, kMostAtOnce);
      memory.clear();
      for (const Lane lane : memory_lanes()) {
        memory.push_back(
            measure_concurrent_run(lane, moving, compute_threads_, measurement_.pair_rule));
      }
    }
    platform_.shared = fit_shared(compute, memory, compute_threads_);
    platform_.shared_adam_threads = 1;
    const std::vector<PairSlowdown> file_pairs =
        measure_file_pairs(options_.folder, measurement_.files);
    platform_.shared.push_back(fit_nvme(file_pairs));
    for (const PairSlowdown& pair : pairs) remark(describe(pair));
    for (const PairSlowdown& pair : file_pairs) remark(describe(pair));
    note(fmt::format("compute lane: {} thread(s)", compute_threads_));
  }

  void note(const std::string& text) { add_note(platform_.provenance, text); }

  const CalibrationOptions& options_;
  std::string program_;
  NodeBench* nodes_;
  std::vector<MeasuredLink> links_;
  HostMeasurementOptions measurement_;
  int compute_threads_;
  Platform platform_;
};

}  // namespace

HostMeasurementOptions host_measurement_options(bool quick) {
  if (quick) {
    return {.copies = {64, 64 * kKiB, kMiB, 16 * kMiB},
            .collectives = {kKiB, 64 * kKiB, kMiB, 8 * kMiB},
            .elements = {1 << 12, 1 << 17, 1 << 20},
            .matrix = 512,
            .rule = {.min_repetitions = 3, .max_seconds = 0.04, .relative_error = 0.05},
            .pair_rule = {.min_repetitions = 5, .max_seconds = 0.06, .relative_error = 0.03},
            .files = {.sizes = {64 * kKiB, kMiB, 8 * kMiB},
                      .file = 32 * kMiB,
                      .piece = 8 * kMiB,
                      .rule = {.min_repetitions = 2, .max_seconds = 0.1, .relative_error = 0.1}}};
  }
  return {
      .copies = {64, 4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB},
      .collectives = {64, 4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB},
      .elements = {1 << 12, 1 << 15, 1 << 18, 1 << 20, 1 << 22},
      .matrix = 1024,
      .rule = {},
      .pair_rule = {.min_repetitions = 9, .max_seconds = 0.25, .relative_error = 0.01},
      .files = {.sizes = {64 * kKiB, kMiB, 4 * kMiB, 16 * kMiB},
                .rule = {.min_repetitions = 3, .max_seconds = 0.4, .relative_error = 0.05}}};
}

Platform calibrate_host(const CalibrationOptions& options, const std::string& program,
                        NodeBench* nodes) {
  return Calibration(options, program, nodes).run();
}

void refuse_refresh(const CalibrationOptions& options) {
  if (!options.before) return;
  throw InputError("--refresh", "on the CPU backend everything is done by the host",
                   "Calibrate again without it.");
}

}  // namespace athanor
