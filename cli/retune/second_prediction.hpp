// SPDX-License-Identifier: Apache-2.0
// The prediction that a run makes again, once its first steps have shown how fast its machine is.
#pragma once

#include "cli/retune/background_program.hpp"
#include "executor/job/run_folder.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/timeline.hpp"

#include <functional>
#include <optional>
#include <string>

namespace athanor::cli {

/// Makes the second prediction in a process of its own, so that training goes on meanwhile. Only
/// rank 0 has one. Nothing that fails here ends the run: it is said, and noted in run.json.
class SecondPrediction {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `first`: the plan's prediction; none where it has none. `folder` and `platform` outlive it.
  SecondPrediction(const RunFolder& folder, const Platform& platform, std::optional<Seconds> first,
                   Say say);

  /// Writes the rates of the steps of `timeline` into the run folder, and starts the simulator.
  void start(const Program& program, const Timeline& timeline, Priority priority);
  [[nodiscard]] bool is_under_way() const noexcept { return simulator_.has_value(); }
  /// Returns the predicted seconds of a step, once, as soon as they are known.
  [[nodiscard]] std::optional<Seconds> poll();
  /// Waits for it until `limit` seconds have passed or `gives_up` says so.
  [[nodiscard]] std::optional<Seconds> wait(Seconds limit, const std::function<bool()>& gives_up);
  /// Ends what is under way, which is noted as not made.
  void give_up();

 private:
  void fail(const std::string& why);
  [[nodiscard]] std::optional<Seconds> take(const BackgroundProgram::Result& result);

  const RunFolder& folder_;
  const Platform& platform_;
  RunPrediction prediction_;
  Say say_;
  std::optional<BackgroundProgram> simulator_;
};

/// Returns the line for people: "step predicted 4.26 s; with this machine's rates 4.41 s".
[[nodiscard]] std::string second_prediction_line(Seconds first, Seconds second);

}  // namespace athanor::cli
