// SPDX-License-Identifier: Apache-2.0
// Fixture with a run folder, as athanor train leaves it.
#pragma once

#include "sim/base/text_file.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/policy/policies.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace athanor::test {

/// Run folder whose measurement is the prediction, slowed down by a known factor.
struct RunFixture : SimFixture {
  static constexpr double kSlowdown = 1.25;
  Plan plan =
      make_policy_plan("fsdp2-offload", profile, platform, {.num_gpus = 2, .global_batch = 8});
  Timeline timeline;

  RunFixture() {
    write_run();
    write_metrics({9, 9, 1, 1, 1});
  }

  /// Predicts the plan on the fixture's machine, and writes all of the folder but the metrics. What
  /// rank 1 computes takes `rank_1` times as long as that.
  void write_run(double rank_1 = 1) {
    const Program program = lower(profile, plan);
    Engine engine(platform, plan.world_size);
    timeline = engine.simulate(program);
    Timeline measured = timeline;
    measured.predicted = false;
    for (Interval& interval : measured.intervals) {
      const Seconds seconds = kSlowdown * (interval.end - interval.start);
      const Operation& op = program.operations[static_cast<std::size_t>(interval.operation)];
      const bool is_slower = interval.rank == 1 && op.lane == Lane::Compute;
      interval.start *= kSlowdown;
      interval.end = interval.start + seconds * (is_slower ? rank_1 : 1);
    }
    std::ostringstream trace;
    write_trace(trace, program, measured);
    write_file_atomically(folder.file("measured.trace.json"), trace.str());
    write_file_atomically(folder.file("plan.json"), to_json(plan));
    write_file_atomically(folder.file("profile.json"), to_json(profile));
    write_file_atomically(folder.file("platform.json"), to_json(platform));
  }

  /// Writes one step per factor, which multiplies the slowed step time.
  void write_metrics(const std::vector<double>& factors) const {
    std::string lines;
    for (const double factor : factors) {
      const nlohmann::json line{
          {"time_metrics/end_to_end(s)", factor * kSlowdown * timeline.step_seconds},
          {"memory/device_peak_bytes", timeline.peak_bytes.gpu}};
      lines += line.dump() + "\n";
    }
    write_file_atomically(folder.file("metrics.jsonl"), lines);
  }
};

}  // namespace athanor::test
