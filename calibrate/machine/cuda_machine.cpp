// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/cuda_machine.hpp"

#include "calibrate/activities/curves.hpp"
#include "calibrate/activities/host_updates.hpp"
#include "calibrate/device/other_work.hpp"
#include "calibrate/machine/cuda_contention.hpp"
#include "calibrate/machine/cuda_power.hpp"
#include "calibrate/machine/file_curves.hpp"
#include "calibrate/machine/machine.hpp"
#include "calibrate/machine/parts.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/cost/contention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor {
namespace {

struct CudaMeasurementOptions {
  std::vector<Bytes> copies, collectives;
  std::vector<std::int64_t> device_elements, host_elements;
  Seconds matrix_warm_up = 1.0;  ///< for as long, power and clocks fall under sustained load
  Seconds warm_up = 0.02;
  StoppingRule matrix_rule, rule, host_rule;
  /// Upper limit on the host memory that measured updates go through. Large, because the speed of
  /// memory depends on where the host's pages happen to lie: in virtual machines it differs by up
  /// to a sixth from one GiB to another, and a step goes through tens of GiB.
  Bytes host_memory = 16 * kGiB;
  FileMeasurementOptions files;
  ContentionMeasurementOptions contention;
  PowerMeasurementOptions power;
};

constexpr std::int64_t kMatrix = 8192;

CudaMeasurementOptions cuda_measurement_options(bool quick) {
  CudaMeasurementOptions options{
      .copies = {4 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB},
      .collectives = {kKiB, 64 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB, kGiB},
      .device_elements = {1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 27},
      .host_elements = {1 << 12, 1 << 20, 1 << 22, 1 << 24, 1 << 26},
      .matrix_rule = {.min_repetitions = 20,
                      .max_repetitions = 4000,
                      .min_seconds = 2,
                      .max_seconds = 2,
                      .relative_error = 0.001},
      .rule = {.min_repetitions = 10,
               .min_seconds = 0.02,
               .max_seconds = 0.15,
               .relative_error = 0.005},
      .host_rule = {.min_repetitions = 5,
                    .min_seconds = 0.03,
                    .max_seconds = 0.05,
                    .relative_error = 0.01},
      .files = {.sizes = {64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB},
                .rule = {.min_repetitions = 3, .max_seconds = 0.4, .relative_error = 0.05}},
      .contention = {},
      .power = {}};
  if (quick) {
    options.copies = {4 * kKiB, kMiB, 64 * kMiB};
    options.collectives = {kKiB, kMiB, 64 * kMiB};
    options.files.sizes = {64 * kKiB, kMiB, 8 * kMiB};
    options.files.file = 32 * kMiB;
    options.files.piece = 8 * kMiB;
    options.device_elements = {1 << 12, 1 << 20, 1 << 24};
    options.host_elements = {1 << 12, 1 << 20, 1 << 22};
    options.host_memory = 0;
    options.matrix_warm_up = 0.3;
    options.matrix_rule.min_seconds = options.matrix_rule.max_seconds = 0.2;
    options.contention.warm_up = 0.05;
    options.contention.settle = 0.3;
    options.contention.duration = 0.1;
    options.contention.adam = 1 << 23;
    options.power = {.bursts = 0.6, .sustained = 1.5, .lane = 0.3};
  }
  return options;
}

Curve::Point point(double size, const Samples& samples) {
  return {size, samples.median(), samples.interquartile_range()};
}

constexpr double kMatrixFlops = 2.0 * kMatrix * kMatrix * kMatrix;

Samples matrix_products(CudaCalibrator& cuda, const CudaMeasurementOptions& options) {
  return measure_sustained(*cuda.matmul(0, kMatrix), options.matrix_warm_up, options.matrix_rule);
}

/// Takes the host's figures from `fresh`. They change within minutes on a host with other tenants.
void take_host_figures(const Platform& fresh, Platform& platform) {
  for (Curve Platform::* const curve :
       {&Platform::h2d, &Platform::d2h, &Platform::d2h_add, &Platform::host_square_sum,
        &Platform::file_read, &Platform::file_write}) {
    platform.*curve = fresh.*curve;
  }
  platform.file_system = fresh.file_system;
  platform.processor = fresh.processor;
  platform.pooled.clear();  // it was of the earlier look, which --earlier may name
  platform.cpu_adam = fresh.cpu_adam;
  platform.cpu_adam_beside = fresh.cpu_adam_beside;
  platform.issue = fresh.issue;
  for (ContentionSample& sample : platform.contention) {
    const auto again = std::ranges::find_if(fresh.contention, [&](const ContentionSample& other) {
      return other.ranks == sample.ranks && lanes_of(other) == lanes_of(sample);
    });
    if (again != fresh.contention.end()) sample = *again;
  }
  Provenance& provenance = platform.provenance;
  constexpr std::string_view kAgain = "what the host does measured again";
  if (provenance.notes.find(kAgain) == std::string::npos) {
    add_note(
        provenance,
        fmt::format("GPUs, collectives, and both beside other lanes as measured on {} by {}; {}",
                    provenance.date, provenance.command, kAgain));
  }
  provenance.date = fresh.provenance.date;
  provenance.command = fresh.provenance.command;
}

void require_same_machine(const Platform& before, const Platform& now) {
  const auto require = [&](const char* key, const auto& then, const auto& found) {
    if (then == found) return;
    throw InputError(fmt::format("--refresh: platform {}:{}", before.name, key),
                     fmt::format("it has {}, this machine {}", then, found),
                     "Calibrate this machine without --refresh.");
  };
  require("backend", before.backend, now.backend);
  require("device", before.device, now.device);
  require("host_cores", before.host_cores, now.host_cores);
}

/// Calibrates one part after the other into a Platform.
class CudaCalibration {
 public:
  CudaCalibration(const CalibrationOptions& options, CudaCalibrator& cuda)
      : options_(options), cuda_(cuda), measurement_(cuda_measurement_options(options.quick)) {}

  Platform run() {
    describe_machine();
    look_for_other_work(platform_);
    std::vector<CalibrationPart> parts{matrix_part()};
    append(parts, {copies_part(), device_updates_part(), host_updates_part()});
    for (int ranks = 1; ranks <= options_.ranks; ++ranks) append(parts, {collectives_part(ranks)});
    append(parts, {files_part(), issue_part(), power_part(), contention_part(WhichSamples::All)});
    run_parts(parts, options_.progress);
    return std::move(platform_);
  }

  /// Returns `before` with the figures of its host measured again.
  Platform run_again(Platform before) {
    describe_machine();
    require_same_machine(before, platform_);
    look_for_other_work(before);
    run_parts({copies_part(), host_updates_part(), files_part(), issue_part(),
               contention_part(WhichSamples::HostMemory)},
              options_.progress);
    take_host_figures(platform_, before);
    return before;
  }

 private:
  static void append(std::vector<CalibrationPart>& parts, std::vector<CalibrationPart> more) {
    std::ranges::move(more, std::back_inserter(parts));
  }

  /// A part that does not know how far it is.
  static CalibrationPart part(std::string name, Seconds expected, std::function<void()> measure) {
    return {std::move(name), expected,
            [measure = std::move(measure)](const CalibrationPart::Advance&) { measure(); }};
  }

  /// Most that curves of so many points take.
  [[nodiscard]] Seconds of_points(std::size_t points) const {
    return static_cast<double>(points) * (measurement_.warm_up + measurement_.rule.max_seconds);
  }

  CalibrationPart matrix_part() {
    return part("matrix products under sustained load",
                measurement_.matrix_warm_up + measurement_.matrix_rule.max_seconds,
                [this] { measure_matrix_products(); });
  }
  CalibrationPart copies_part() {
    return part("copies between host and device", of_points(3 * measurement_.copies.size()),
                [this] { measure_copies(); });
  }
  CalibrationPart device_updates_part() {
    return part("AdamW and square sums on the device",
                of_points(2 * measurement_.device_elements.size()),
                [this] { measure_device_updates(); });
  }
  CalibrationPart host_updates_part() {
    constexpr double kBytesPerSecond = 2e9;  // as a host gives pages that nobody has used
    return part("AdamW and square sums on the host",
                of_points(3 * measurement_.host_elements.size()) +
                    static_cast<double>(measurement_.host_memory) / kBytesPerSecond,
                [this] { measure_host_updates(); });
  }
  CalibrationPart collectives_part(int ranks) {
    return part(fmt::format("collectives between {} GPU(s)", ranks),
                of_points(3 * measurement_.collectives.size()),
                [this, ranks] { measure_collectives_of(ranks); });
  }
  CalibrationPart files_part() {
    return part("file reads and writes",
                2 * static_cast<double>(measurement_.files.sizes.size()) *
                    measurement_.files.rule.max_seconds,
                [this] { measure_storage(options_.folder, measurement_.files, platform_); });
  }
  CalibrationPart issue_part() {
    return part("launches by the host", 1,
                [this] { platform_.issue = cuda_.issue(options_.ranks); });
  }
  CalibrationPart power_part() {
    const PowerMeasurementOptions& power = measurement_.power;
    return part("power of matrix products and of the lanes",
                5 * power.bursts + power.sustained + 2 * kNumLanes * power.lane,
                [this] { measure_power(); });
  }
  CalibrationPart contention_part(WhichSamples which) {
    const ContentionMeasurementOptions& options = measurement_.contention;
    const Seconds sample = 2 * (options.warm_up + options.duration);  // and a baseline of its lanes
    return {"contention between lanes",
            sample * static_cast<double>(num_contention_samples(options_.ranks, which)) +
                options.settle,
            [this, which](const CalibrationPart::Advance& advance) {
              measure_contention_of_lanes(which, advance);
            }};
  }

  void describe_machine() {
    platform_.device = cuda_.device_name(0);
    platform_.num_devices = options_.ranks;
    platform_.name = fmt::format("{} x {}", options_.ranks, platform_.device);
    platform_.backend = "cuda";
    platform_.device_memory = cuda_.device_memory(0);
    platform_.host_memory = usable_memory();
    platform_.host_cores = usable_cores();
    platform_.processor = processor_model();
    platform_.provenance = measured_here(options_.command);
    platform_.provenance.versions.merge(cuda_.versions());
    note("host: " + processor_name());
    if (const std::string settings = nccl_settings(); !settings.empty()) note("NCCL: " + settings);
    if (options_.described) options_.described(platform_);
  }

  /// Says on the terminal and in `platform` if its GPUs are not this process's alone.
  void look_for_other_work(Platform& platform) {
    const std::string others = other_work(cuda_, options_.ranks);
    if (others.empty()) return;
    add_note(platform.provenance, others);
    if (options_.warn) options_.warn(others);
  }

  void measure_matrix_products() {
    const Samples samples = matrix_products(cuda_, measurement_);
    platform_.matmul_flops_per_second = kMatrixFlops / samples.mean();
    note(fmt::format("matrix products: bf16, {0} x {0}, spread {1:.2f} %", kMatrix,
                     100 * samples.interquartile_range() / samples.median()));
  }

  [[nodiscard]] Curve measure(const std::vector<std::int64_t>& sizes,
                              const std::function<ActivityPtr(std::int64_t)>& make) const {
    Curve curve;
    for (const std::int64_t size : sizes) {
      const Samples samples =
          measure_sustained(*make(size), measurement_.warm_up, measurement_.rule);
      curve.points.push_back(point(static_cast<double>(size), samples));
    }
    return curve;
  }

  void measure_copies() {
    platform_.h2d =
        measure(measurement_.copies, [this](Bytes size) { return cuda_.copy_h2d(0, size); });
    platform_.d2h =
        measure(measurement_.copies, [this](Bytes size) { return cuda_.copy_d2h(0, size); });
    platform_.d2h_add =
        measure(measurement_.copies, [this](Bytes size) { return cuda_.add_d2h(0, size); });
  }

  void measure_device_updates() {
    platform_.device_adam = measure(measurement_.device_elements,
                                    [this](std::int64_t size) { return cuda_.adam(0, size); });
    platform_.device_square_sum = measure(measurement_.device_elements, [this](std::int64_t size) {
      return cuda_.square_sum(0, size);
    });
  }

  void measure_host_updates() {
    constexpr std::int64_t kSlices = 2;  // at least: the old state and the new
    constexpr Bytes kPart = 8;           // at most so large a part of the machine's memory
    const Bytes most = std::min(measurement_.host_memory, platform_.host_memory / kPart);
    const std::int64_t largest = measurement_.host_elements.back();
    const std::int64_t length =
        std::max({kSlices * largest, kSlices * measurement_.contention.adam * options_.ranks,
                  most / HostUpdates::kBytesPerElement});
    const HostUpdates& updates = updates_.emplace(length);
    StoppingRule rule = measurement_.host_rule;
    rule.min_repetitions = std::max(rule.min_repetitions, static_cast<int>(length / largest));
    const auto by_threads = [&](const std::function<Activity(std::int64_t, int)>& make) {
      return measure_by_threads(measurement_.host_elements, platform_.host_cores, rule, make);
    };
    platform_.cpu_adam =
        by_threads([&](std::int64_t size, int threads) { return updates.adam(size, threads); });
    platform_.cpu_adam_beside = by_threads(
        [&](std::int64_t size, int threads) { return updates.adam_beside(size, threads); });
    platform_.host_square_sum =
        measure_curve(measurement_.host_elements, rule,
                      [&](std::int64_t size) { return updates.square_sum(size); });
  }

  void measure_collectives_of(int ranks) {
    platform_.all_gather.push_back(collective(CollectiveKind::AllGather, ranks));
    platform_.reduce_scatter.push_back(collective(CollectiveKind::ReduceScatter, ranks));
    platform_.all_reduce.push_back(collective(CollectiveKind::AllReduce, ranks));
    platform_.all_to_all.push_back(collective(CollectiveKind::AllToAll, ranks));
  }

  [[nodiscard]] CollectiveCurve collective(CollectiveKind kind, int ranks) const {
    constexpr Bytes kPart = 256;
    std::vector<Bytes> sizes = measurement_.collectives;
    for (Bytes& size : sizes) size = round_up(size, ranks * kPart);
    return {ranks, measure(sizes, [&](Bytes size) { return cuda_.collective(kind, ranks, size); })};
  }

  void measure_power() {
    if (!cuda_.joules(0)) return note("power was not measured: NVML has no energy counter here");
    std::optional<PowerMeasurements> measured;
    or_note([&] { measured = measure_bursts(cuda_, kMatrix, measurement_.power); });
    if (!measured) return;
    if (options_.power_measured) options_.power_measured(*measured, platform_.provenance);
    or_note([&] { platform_.power = power_of_products(*measured, kMatrix); });
    if (!platform_.power) return;
    const PowerFitErrors errors = fit_errors(*platform_.power, *measured);
    note(
        fmt::format("power: products under its limits are within {:.1f} % in time and {:.1f} % in "
                    "mean power of the model that was fitted to them",
                    100 * errors.seconds, 100 * errors.watts));
    platform_.power->lane_watts =
        measure_lane_watts(cuda_, options_.ranks, measurement_.contention.copy, measurement_.power,
                           platform_.power->idle_watts);
  }

  /// Runs `power`, whose failure becomes a note: a machine without a power model is still a
  /// machine.
  void or_note(const std::function<void()>& power) {
    try {
      power();
    } catch (const Error& error) {
      note(fmt::format("power was not measured: {}", error.what()));
    }
  }

  void measure_contention_of_lanes(WhichSamples which, const CalibrationPart::Advance& advance) {
    platform_.contention = measure_contention(
        {.cuda = cuda_,
         .num_devices = options_.ranks,
         .host_cores = platform_.host_cores,
         .updates = updates_.value(),
         .files = {options_.folder, measurement_.files.file, measurement_.files.piece},
         .options = measurement_.contention,
         .remark = options_.remark,
         .advance = advance},
        which);
    note(fmt::format(
        "lanes at once: cpu-adam with {} thread(s) on all ranks together, with {} on one",
        platform_.host_cores, adam_threads_per_rank(platform_.host_cores, options_.ranks)));
  }

  void note(const std::string& text) { add_note(platform_.provenance, text); }

  const CalibrationOptions& options_;
  CudaCalibrator& cuda_;
  CudaMeasurementOptions measurement_;
  std::optional<HostUpdates> updates_;  ///< absent until they are measured
  Platform platform_;
};

}  // namespace

Platform calibrate_cuda_machine(const CalibrationOptions& options, CudaCalibrator& cuda) {
  CalibrationOptions resolved = options;
  if (options.before) resolved.ranks = options.before->num_devices;
  if (resolved.ranks == 0) resolved.ranks = cuda.num_devices();
  if (resolved.ranks > cuda.num_devices()) {
    throw InputError("--gpus", fmt::format("there are {} GPUs here", cuda.num_devices()),
                     "Use at most that many.");
  }
  CudaCalibration calibration(resolved, cuda);
  Platform platform = options.before ? calibration.run_again(*options.before) : calibration.run();
  platform.validate("calibration");
  return platform;
}

double sustained_matmul_rate(CudaCalibrator& cuda) {
  return kMatrixFlops / matrix_products(cuda, cuda_measurement_options(/*quick=*/false)).mean();
}

}  // namespace athanor
