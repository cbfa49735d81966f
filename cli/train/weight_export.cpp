// SPDX-License-Identifier: Apache-2.0
#include "cli/train/weight_export.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <vector>

namespace athanor::cli {
namespace {

/// Rank 0's side of an export.
class Export {
 public:
  Export(const TrainArguments& arguments, const TrainInputs& inputs)
      : folder_(arguments.export_folder),
        type_(tensor_type(inputs.plan.dtype)),
        there_(inputs.start.exported) {
    if (there_) return;
    writer_.emplace(folder_, inputs.architecture, inputs.plan.dtype, inputs.start.export_source);
  }

  void take(int unit, const std::vector<float>& weights) {
    rounded_.resize(weights.size() * static_cast<std::size_t>(size_of(type_)));
    narrow(weights, type_, rounded_);
    hash_ = hash_bytes(rounded_, hash_);
    if (writer_) writer_->write_unit(unit, weights);
  }

  void finish(const std::string& run, std::int64_t step) {
    const std::string digest = fmt::format("{:016x}", hash_);
    if (writer_) return writer_->finish(ExportRecord{run, step, digest, {}});
    if (there_->digest == digest) return;
    throw Error(fmt::format(
        "{}: holds other weights of this run's step {} than these; move it away", folder_, step));
  }

 private:
  std::string folder_;
  TensorType type_;
  std::optional<ExportRecord> there_;  ///< an export of before, which stays
  std::optional<HfFolderWriter> writer_;
  std::vector<std::byte> rounded_;
  std::uint64_t hash_ = kEmptyHash;
};

}  // namespace

std::string export_weights(Trainer& trainer, const TrainArguments& arguments,
                           const TrainInputs& inputs, const std::string& run, int rank,
                           const std::function<bool()>& is_stopping, ProgressLine& progress) {
  std::optional<Export> result;
  std::string failure;
  const auto attempt = [&](const std::function<void()>& work) {
    if (rank != 0 || !failure.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      failure = error.what();
      result.reset();
    }
  };
  attempt([&] { result.emplace(arguments, inputs); });
  const int units = static_cast<int>(inputs.architecture.units.size());
  for (int unit = 0; unit < units; ++unit) {
    progress.update("exporting the weights", unit, units);
    if (is_stopping()) return {};
    const std::vector<float> weights = trainer.unit_weights(unit);
    attempt([&] { result->take(unit, weights); });
  }
  attempt([&] { result->finish(run, trainer.steps_done()); });
  progress.clear();
  return failure;
}

}  // namespace athanor::cli
