// SPDX-License-Identifier: Apache-2.0
#include "executor/batches/token_batches.hpp"

#include "executor/batches/image_batches.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace athanor {

namespace {

/// Views row `i` of a tensor [count, sequence].
template <typename Value>
std::span<Value> row(const torch::Tensor& tensor, std::int64_t i) {
  const std::int64_t length = tensor.size(1);
  return {tensor.mutable_data_ptr<Value>() + i * length, static_cast<std::size_t>(length)};
}

torch::Tensor empty_ids(std::int64_t count, std::int64_t sequence_length) {
  return torch::empty({count, sequence_length}, torch::kInt64);
}

/// Returns the sample of the data that each of a run's samples is.
using SampleAt = std::function<std::int64_t(std::int64_t index)>;

Batch read_batch(const TokenDataset& tokens, std::int64_t first, const SampleAt& sample_at,
                 Batch batch) {
  for (std::int64_t i = 0; i < batch.inputs.size(0); ++i) {
    tokens.read_sample(sample_at(first + i), row<std::int64_t>(batch.inputs, i),
                       row<std::int64_t>(batch.targets, i));
  }
  return batch;
}

Batch read_batch(const PackedDataset& packed, std::int64_t first, const SampleAt& sample_at,
                 Batch batch) {
  Packing packing;
  packing.ignored = torch::empty(batch.inputs.sizes(), torch::kBool);
  packing.positions = torch::empty_like(batch.inputs);
  for (std::int64_t i = 0; i < batch.inputs.size(0); ++i) {
    packing.document_starts.push_back(packed.read_sample(
        sample_at(first + i),
        {row<std::int64_t>(batch.inputs, i), row<std::int64_t>(batch.targets, i),
         row<bool>(packing.ignored, i), row<std::int64_t>(packing.positions, i)}));
  }
  packing.num_targets = [&packed, sample_at](std::int64_t begin, std::int64_t count) {
    std::int64_t targets = 0;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      targets += packed.num_targets(sample_at(i), 1);
    }
    return targets;
  };
  batch.packing = std::move(packing);
  return batch;
}

/// Number of learnt targets of the data's samples [first, first + count).
std::int64_t num_targets(const TrainingData& data, std::int64_t first, std::int64_t count,
                         std::int64_t sequence_length) {
  if (const auto* packed = std::get_if<PackedDataset>(&data)) {
    return packed->num_targets(first, count);
  }
  return count * sequence_length;
}

/// Every sequence is one document, all of whose targets count.
Packing whole_sequences(const Batch& batch) {
  Packing packing;
  const std::int64_t count = batch.inputs.size(0), length = batch.inputs.size(1);
  packing.ignored = torch::zeros(batch.inputs.sizes(), torch::kBool);
  packing.positions = torch::arange(length, torch::kInt64).repeat({count, 1});
  packing.document_starts.assign(static_cast<std::size_t>(count), {0});
  return packing;
}

}  // namespace

EvaluationSource evaluation_source(std::shared_ptr<const TrainingData> data,
                                   std::int64_t sequence_length) {
  if (std::holds_alternative<ImageDataset>(*data)) return image_evaluation(std::move(data));
  EvaluationSource source;
  source.num_samples = num_samples(*data, sequence_length);
  source.num_targets = [data, sequence_length, end = source.num_samples](std::int64_t first,
                                                                         std::int64_t count) {
    const std::int64_t used = std::clamp<std::int64_t>(end - first, 0, count);
    return used == 0 ? 0 : num_targets(*data, first, used, sequence_length);
  };
  source.batches = [batches = token_batches(data, sequence_length), end = source.num_samples,
                    count_targets = source.num_targets](std::int64_t first, std::int64_t count) {
    Batch batch = batches(first, count);
    const std::int64_t used = std::clamp<std::int64_t>(end - first, 0, count);
    if (used == count && !batch.packing) return batch;
    if (!batch.packing) batch.packing = whole_sequences(batch);
    if (used < count) batch.packing->ignored.slice(0, used).fill_(true);
    batch.packing->mean_targets =
        static_cast<double>(std::max<std::int64_t>(1, count_targets(first, count)));
    return batch;
  };
  return source;
}

BatchSource token_batches(std::shared_ptr<const TrainingData> data, std::int64_t sequence_length,
                          const StreamStart& start) {
  if (std::holds_alternative<ImageDataset>(*data)) return image_batches(std::move(data), start);
  const SampleAt sample_at = [start,
                              samples = num_samples(*data, sequence_length)](std::int64_t index) {
    return start.order.sample(start.shift + index, samples);
  };
  return
      [data = std::move(data), sequence_length, sample_at](std::int64_t first, std::int64_t count) {
        Batch batch{empty_ids(count, sequence_length), empty_ids(count, sequence_length)};
        if (const auto* packed = std::get_if<PackedDataset>(data.get())) {
          return read_batch(*packed, first, sample_at, std::move(batch));
        }
        return read_batch(std::get<TokenDataset>(*data), first, sample_at, std::move(batch));
      };
}

Bytes packing_bytes_per_sample(const TrainingData& data, std::int64_t sequence_length) {
  constexpr Bytes kBytesPerToken = sizeof(bool) + sizeof(std::int64_t);
  return std::holds_alternative<PackedDataset>(data) ? sequence_length * kBytesPerToken : 0;
}

}  // namespace athanor
