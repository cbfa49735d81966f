// SPDX-License-Identifier: Apache-2.0
#include "executor/batches/image_batches.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

namespace athanor {

namespace {

/// Leaves images behind `used` out of the loss, which is the mean over the others.
Packing first_images(std::int64_t used, std::int64_t count) {
  Packing packing;
  packing.ignored = torch::zeros({count}, torch::kBool);
  packing.ignored.slice(0, used).fill_(true);
  packing.mean_targets = static_cast<double>(std::max<std::int64_t>(1, used));
  return packing;
}

}  // namespace

BatchSource image_batches(std::shared_ptr<const TrainingData> data, const StreamStart& start) {
  return [data = std::move(data), start](std::int64_t first, std::int64_t count) {
    const ImageDataset& images = std::get<ImageDataset>(*data);
    const ImageIndex& index = images.index();
    Batch batch{torch::empty({count, index.channels, index.height, index.width}, torch::kFloat32),
                torch::empty({count}, torch::kInt64)};
    const auto size = static_cast<std::size_t>(index.pixels_per_image());
    float* const pixels = batch.inputs.mutable_data_ptr<float>();
    auto* const labels = batch.targets.mutable_data_ptr<std::int64_t>();
    // A CPU rank has several threads here; the one of a GPU rank works ahead of its GPU.
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t number = start.shift + first + i;
        labels[i] = images.read_sample(start.order.sample(number, images.num_samples()),
                                       {pixels + static_cast<std::size_t>(i) * size, size});
      }
    });
    return batch;
  };
}

EvaluationSource image_evaluation(std::shared_ptr<const TrainingData> data) {
  EvaluationSource source;
  source.num_samples = std::get<ImageDataset>(*data).num_samples();
  source.num_targets = [end = source.num_samples](std::int64_t first, std::int64_t count) {
    return std::clamp<std::int64_t>(end - first, 0, count);
  };
  source.batches = [batches = image_batches(std::move(data)), used_of = source.num_targets](
                       std::int64_t first, std::int64_t count) {
    Batch batch = batches(first, count);
    const std::int64_t used = used_of(first, count);
    if (used < count) batch.packing = first_images(used, count);
    return batch;
  };
  return source;
}

}  // namespace athanor
