// SPDX-License-Identifier: Apache-2.0
#include "cli/train/weight_export.hpp"

#include "executor/io/hf_folder_writer.hpp"

#include <exception>
#include <optional>
#include <vector>

namespace athanor::cli {

std::string export_weights(Trainer& trainer, const TrainArguments& arguments,
                           const TrainInputs& inputs, int rank,
                           const std::function<bool()>& is_stopping, ProgressLine& progress) {
  std::optional<HfFolderWriter> writer;
  std::string failure;
  const auto attempt = [&](const std::function<void()>& work) {
    if (rank != 0 || !failure.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      failure = error.what();
      writer.reset();
    }
  };
  attempt([&] {
    writer.emplace(arguments.export_folder, inputs.architecture, inputs.plan.dtype,
                   inputs.start.export_source);
  });
  const int units = static_cast<int>(inputs.architecture.units.size());
  for (int unit = 0; unit < units; ++unit) {
    progress.update("exporting the weights", unit, units);
    if (is_stopping()) return {};
    const std::vector<float> weights = trainer.unit_weights(unit);
    attempt([&] { writer->write_unit(unit, weights); });
  }
  attempt([&] { writer->finish(); });
  progress.clear();
  return failure;
}

}  // namespace athanor::cli
