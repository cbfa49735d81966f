// SPDX-License-Identifier: Apache-2.0
#include "tests/units/llama_cases.hpp"

#include "executor/layers/attention.hpp"
#include "executor/layers/llama_layers.hpp"
#include "executor/layers/sink_attention.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/autograd.h>

#include <cmath>
#include <limits>
#include <optional>

namespace athanor::test {
namespace {

using torch::Tensor;

constexpr double kEpsilon = 1e-5;

/// Weight [out, in], as llama's layers have it.
Tensor llama_weight(std::int64_t in, std::int64_t out, std::uint64_t seed) {
  return weight_of(in, out, seed).t().contiguous();
}

void add_bias(Tensors& inputs, bool bias, std::int64_t width, std::uint64_t seed) {
  if (bias) inputs.push_back(bias_of(width, seed));
}

Tensor optional_bias(const Tensors& in, std::size_t at) {
  return at < in.size() ? in[at] : Tensor();
}

/// Tokens that document starts make positions and borders of.
std::optional<Packing> packing_of(const AttentionCase& of, torch::Device device) {
  if (of.document_starts.empty()) return std::nullopt;
  Packing packing;
  packing.document_starts = of.document_starts;
  packing.positions = torch::empty({of.batch, of.sequence}, torch::kInt64);
  for (std::int64_t row = 0; row < of.batch; ++row) {
    for (const std::int64_t start : of.document_starts[static_cast<std::size_t>(row)]) {
      packing.positions[row].slice(0, start).copy_(torch::arange(of.sequence - start));
    }
  }
  packing.positions = packing.positions.to(device);
  return packing;
}

RotaryFrequencies frequencies_of(std::int64_t head_dim) {
  RotaryFrequencies rotary{{}, 1.1};
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    rotary.frequencies.push_back(1.0F / static_cast<float>(1 + i * i));
  }
  return rotary;
}

fused::HeadShape heads_of(const AttentionCase& of) {
  return {of.query_heads, of.key_heads, of.head_dim};
}

/// Splits queries, keys and values, [batch, heads, sequence, head_dim].
Tensors split(const Tensor& packed, const AttentionCase& of) {
  const std::int64_t query = of.query_heads * of.head_dim, key = of.key_heads * of.head_dim;
  const std::vector<Tensor> parts = packed.split_with_sizes({query, key, key}, 2);
  return {split_heads(parts[0], of.query_heads), split_heads(parts[1], of.key_heads),
          split_heads(parts[2], of.key_heads)};
}

/// Rotates, with angles as exact as the type of `x`, but cosines and sines of the rounded type.
Tensor plain_rotation(const Tensor& x, const AttentionCase& of, torch::ScalarType rounded) {
  const std::optional<Packing> packing = packing_of(of, x.device());
  RotaryTable table = rotary_table(of.sequence, frequencies_of(of.head_dim), x.to(rounded));
  table = restarted({table.cosines.to(x.scalar_type()), table.sines.to(x.scalar_type())}, packing);
  return rotate(x, table);
}

/// Which keys a query sees: those before it and itself, in the window and of its own document.
Tensor seen_keys(const AttentionCase& of) {
  const Tensor at = torch::arange(of.sequence);
  const Tensor distance = at.unsqueeze(1) - at;
  Tensor seen = (distance >= 0).expand({of.batch, 1, of.sequence, of.sequence});
  if (of.window > 0) seen = seen.logical_and(distance < of.window);
  if (of.document_starts.empty()) return seen;
  Tensor document = torch::zeros({of.batch, of.sequence}, torch::kInt64);
  for (std::int64_t row = 0; row < of.batch; ++row) {
    for (const std::int64_t start : of.document_starts[static_cast<std::size_t>(row)]) {
      document[row].slice(0, start) += 1;
    }
  }
  return seen.logical_and((document.unsqueeze(2) == document.unsqueeze(1)).unsqueeze(1));
}

/// A softmax over all scores and the sink, whose share is dropped.
Tensor plain_sink_attention(const AttentionCase& of, const Tensor& query, const Tensor& key,
                            const Tensor& value, const Tensor& sinks) {
  const std::int64_t group = of.query_heads / of.key_heads;
  const Tensor scores =
      query.matmul(key.repeat_interleave(group, 1).transpose(2, 3)) / std::sqrt(of.head_dim);
  const Tensor visible =
      scores.masked_fill(seen_keys(of).logical_not(), -std::numeric_limits<double>::infinity());
  const Tensor sink = sinks.view({1, -1, 1, 1}).expand({of.batch, -1, of.sequence, 1});
  const Tensor shares = torch::cat({visible, sink}, -1).softmax(-1).slice(-1, 0, of.sequence);
  return shares.matmul(value.repeat_interleave(group, 1));
}

Part plain_attention(const AttentionCase& of, torch::ScalarType rounded) {
  return [of, rounded](const Tensors& in) {
    Tensors parts = split(in[0], of);
    if (of.sinks) {
      return Tensors{merge_heads(plain_sink_attention(of, plain_rotation(parts[0], of, rounded),
                                                      plain_rotation(parts[1], of, rounded),
                                                      parts[2], in.back()))};
    }
    if (in.size() > 1) {
      parts[0] = RmsNorm{in[1], kEpsilon}(parts[0]);
      parts[1] = RmsNorm{in[2], kEpsilon}(parts[1]);
    }
    return Tensors{merge_heads(causal_attention(plain_rotation(parts[0], of, rounded),
                                                plain_rotation(parts[1], of, rounded), parts[2],
                                                packing_of(of, in[0].device()), of.window))};
  };
}

Tensor packed_of(const AttentionCase& of, std::uint64_t seed) {
  const std::int64_t width = (of.query_heads + 2 * of.key_heads) * of.head_dim;
  return normal({of.batch, of.sequence, width}, seed);
}

fused::RotaryPositions rotary_of(const AttentionCase& of, torch::Device device) {
  fused::RotaryPositions rotary{frequencies_of(of.head_dim), {}};
  if (const auto packing = packing_of(of, device)) rotary.positions = packing->positions;
  return rotary;
}

/// Returns queries and keys as they lie in `packed`, normalized and rotated one after another.
Tensor plain_heads(const Tensors& in, const AttentionCase& of, torch::ScalarType rounded) {
  const Tensors parts = split(in[0], of);
  return torch::cat({merge_heads(plain_rotation(RmsNorm{in[1], kEpsilon}(parts[0]), of, rounded)),
                     merge_heads(plain_rotation(RmsNorm{in[2], kEpsilon}(parts[1]), of, rounded))},
                    2);
}

}  // namespace

void check_norm_and_project(const FusedShape& s, bool bias, torch::Device device,
                            torch::ScalarType dtype) {
  constexpr std::size_t kFirstBias = 5;
  Tensors inputs{tokens_of(s, 1), scale_of(s.width, 2), llama_weight(s.width, 2 * s.width, 3),
                 llama_weight(s.width, s.width, 4), llama_weight(s.width, s.width, 5)};
  add_bias(inputs, bias, 2 * s.width, 6);
  add_bias(inputs, bias, s.width, 7);
  add_bias(inputs, bias, s.width, 8);
  const Part part = [](const Tensors& in) {
    const Projected result = norm_and_project(
        in[0], {in[1], kEpsilon}, {{in[2], in[3], in[4]}, {in.begin() + kFirstBias, in.end()}});
    return Tensors{result.trunk, result.outputs};
  };
  const Part plain = [](const Tensors& in) {
    const Tensor normal = RmsNorm{in[1], kEpsilon}(in[0]);
    Tensors outputs;
    for (std::size_t i = 0; i < 3; ++i) {
      outputs.push_back(at::linear(normal, in[2 + i], optional_bias(in, kFirstBias + i)));
    }
    return Tensors{in[0], torch::cat(outputs, 2)};
  };
  compare(part, plain, inputs, device, dtype);
}

void check_add_projection(const FusedShape& s, bool bias, torch::Device device,
                          torch::ScalarType dtype) {
  Tensors inputs{tokens_of(s, 1), tokens_of({s.batch, s.sequence, 2 * s.width}, 2),
                 llama_weight(2 * s.width, s.width, 3)};
  add_bias(inputs, bias, s.width, 4);
  compare(
      [](const Tensors& in) {
        return Tensors{add_projection(in[0], {in[2], optional_bias(in, 3)}, in[1])};
      },
      [](const Tensors& in) {
        return Tensors{in[0] + at::linear(in[1], in[2], optional_bias(in, 3))};
      },
      inputs, device, dtype);
}

void check_gated_projection(const FusedShape& s, const std::string& activation, bool bias,
                            torch::Device device, torch::ScalarType dtype) {
  Tensors inputs{tokens_of(s, 1), tokens_of({s.batch, s.sequence, 2 * s.width}, 2),
                 llama_weight(s.width, s.width, 3)};
  add_bias(inputs, bias, s.width, 4);
  compare(
      [&](const Tensors& in) {
        return Tensors{
            add_gated_projection(in[0], {in[2], optional_bias(in, 3)}, in[1], activation)};
      },
      [&](const Tensors& in) {
        const std::vector<Tensor> parts = in[1].chunk(2, -1);
        return Tensors{in[0] + at::linear(activate(parts[0], activation) * parts[1], in[2],
                                          optional_bias(in, 3))};
      },
      inputs, device, dtype);
}

void check_attend(const AttentionCase& of, bool norms, torch::Device device,
                  torch::ScalarType dtype) {
  Tensors inputs{packed_of(of, 1)};
  if (norms) inputs.insert(inputs.end(), {scale_of(of.head_dim, 2), scale_of(of.head_dim, 3)});
  if (of.sinks) inputs.push_back(normal({of.query_heads}, 4));
  const Part part = [of, norms](const Tensors& in) {
    RotaryAttention attention{heads_of(of), frequencies_of(of.head_dim), of.window, std::nullopt,
                              of.most_workspace};
    if (norms) attention.norms = {in[1], in[2], kEpsilon};
    if (of.sinks) attention.sinks = in.back();
    // Attention takes its input over; a leaf is not to be given away.
    return Tensors{attend(attention, in[0] * 1.0, packing_of(of, in[0].device()))};
  };
  compare(part, plain_attention(of, dtype), inputs, device, dtype);
}

void check_sink_attention(const AttentionCase& of, torch::Device device, torch::ScalarType dtype) {
  const Part part = [of](const Tensors& in) {
    const Tensors heads = split(in[0], of);
    return Tensors{merge_heads(sink_attention(heads[0], heads[1], heads[2], in[1],
                                              packing_of(of, in[0].device()), of.window))};
  };
  const Part plain = [of](const Tensors& in) {
    const Tensors heads = split(in[0], of);
    return Tensors{merge_heads(plain_sink_attention(of, heads[0], heads[1], heads[2], in[1]))};
  };
  compare(part, plain, {packed_of(of, 1), normal({of.query_heads}, 2)}, device, dtype);
}

void check_rotation(const AttentionCase& of, torch::Device device, torch::ScalarType dtype) {
  const Tensor packed = packed_of(of, 1).to(dtype);
  const std::int64_t heads = of.query_heads + of.key_heads;
  Tensor rotated = packed.to(device).clone();
  fused::rotate_in_place(rotated, heads, rotary_of(of, device), /*back=*/false);
  const Tensors parts = split(packed.to(torch::kFloat64), of);
  check_close(rotated,
              torch::cat({merge_heads(plain_rotation(parts[0], of, dtype)),
                          merge_heads(plain_rotation(parts[1], of, dtype)), merge_heads(parts[2])},
                         2),
              dtype);
  fused::rotate_in_place(rotated, heads, rotary_of(of, device), /*back=*/true);
  // Back and forth multiplies by the square of the scale of cosines and sines.
  const std::int64_t width = heads * of.head_dim;
  const double scale = frequencies_of(of.head_dim).scale;
  check_close(rotated.slice(2, 0, width),
              packed.to(torch::kFloat64).slice(2, 0, width) * scale * scale, dtype, 2e-5);
}

void check_norm_and_rotation(const AttentionCase& of, torch::Device device,
                             torch::ScalarType dtype) {
  const Tensors inputs{packed_of(of, 1).to(dtype), scale_of(of.head_dim, 2).to(dtype),
                       scale_of(of.head_dim, 3).to(dtype)};
  const std::int64_t width = (of.query_heads + of.key_heads) * of.head_dim;
  const Tensor gradient = normal(inputs[0].sizes(), 4).to(dtype);
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.to(torch::kFloat64).requires_grad_());
  const Tensor expected = plain_heads(leaves, of, dtype);
  const Tensors gradients =
      torch::autograd::grad({expected}, leaves, {gradient.to(torch::kFloat64).slice(2, 0, width)});

  const fused::HeadNorms norms{inputs[1].to(device), inputs[2].to(device), kEpsilon};
  const Tensor packed = inputs[0].to(device);
  const fused::RotaryPositions rotary = rotary_of(of, device);
  check_close(fused::norm_and_rotate(packed, heads_of(of), norms, rotary), expected.detach(),
              dtype);
  Tensor of_packed = gradient.to(device).clone();
  const fused::HeadNormGradients of_norms =
      fused::norm_and_rotate_backward(of_packed, packed, heads_of(of), norms, rotary);
  check_close(of_packed.slice(2, 0, width), gradients[0].slice(2, 0, width), dtype);
  CHECK(torch::equal(of_packed.slice(2, width), gradient.to(device).slice(2, width)));
  check_close(of_norms.query_weight, gradients[1], dtype);
  check_close(of_norms.key_weight, gradients[2], dtype);
}

}  // namespace athanor::test
