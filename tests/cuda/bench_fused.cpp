// SPDX-License-Identifier: Apache-2.0
// Gains of fused operators over LibTorch's at gpt2-4b's size (16 sequences of 1024, hidden 3072),
// and those of cuBLASLt's epilogues. One JSON line per case; random data, sustained load. usage:
// bench_fused [CASE..]   (operators, head, attention, epilogues, products, block)
#include "executor/backend/cuda_plugin.hpp"
#include "executor/layers/attention.hpp"
#include "executor/layers/fused_layers.hpp"
#include "executor/layers/fused_operators.hpp"
#include "tests/cuda/device_timer.hpp"
#include "tests/cuda/lt_product.hpp"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <torch/utils.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace athanor {
namespace {

using test::Epilogue;
using test::LtProduct;
using test::Operand;
using test::report;
using test::Variant;
using torch::Tensor;

constexpr std::int64_t kBatch = 16, kSequence = 1024, kTokens = kBatch * kSequence;
constexpr std::int64_t kHidden = 3072, kWide = 4 * kHidden, kHeads = 24, kVocabulary = 50304;
constexpr std::int64_t kHeadRows = 2432;  // a block of rows of the loss
constexpr double kEpsilon = 1e-5;
constexpr double kMatrixBytes = 2.0 * kTokens * kHidden;

Tensor random(at::IntArrayRef shape, double scale = 1.0) {
  const auto options = torch::TensorOptions().dtype(torch::kBFloat16).device(torch::kCUDA, 0);
  return torch::randn(shape, options).mul_(scale);
}

void operators() {
  const Tensor x = random({kTokens, kHidden}), residual = random({kTokens, kHidden});
  const Tensor gradient = random({kTokens, kHidden});
  const Tensor wide = random({kTokens, kWide}), wide_gradient = random({kTokens, kWide});
  const Tensor weight = random({kHidden}), offset = random({kHidden});

  report("activation",
         {{"aten", [&] { static_cast<void>(at::gelu(wide, "tanh")); }},
          {"fused", [&] { static_cast<void>(fused::activate(wide, "gelu_new")); }}},
         8 * kMatrixBytes);
  report(
      "activation backward and bias gradient",
      {{"aten", [&] { static_cast<void>(at::gelu_backward(wide_gradient, wide, "tanh").sum(0)); }},
       {"fused",
        [&] { static_cast<void>(fused::activate_backward(wide_gradient, wide, "gelu_new")); }}},
      12 * kMatrixBytes);
  report("bias gradient, hidden",
         {{"aten", [&] { static_cast<void>(gradient.sum(0)); }},
          {"fused", [&] { static_cast<void>(fused::column_sum(gradient)); }}},
         kMatrixBytes);
  report("bias gradient, 4 hidden",
         {{"aten", [&] { static_cast<void>(wide_gradient.sum(0)); }},
          {"fused", [&] { static_cast<void>(fused::column_sum(wide_gradient)); }}},
         4 * kMatrixBytes);
  report("layer norm",
         {{"aten",
           [&] {
             static_cast<void>(at::native_layer_norm(x, weight.sizes(), weight, offset, kEpsilon));
           }},
          {"fused",
           [&] { static_cast<void>(fused::add_layer_norm({}, x, weight, offset, kEpsilon)); }}},
         2 * kMatrixBytes);
  report(
      "residual and layer norm",
      {{"aten",
        [&] {
          static_cast<void>(
              at::native_layer_norm(x + residual, weight.sizes(), weight, offset, kEpsilon));
        }},
       {"fused",
        [&] { static_cast<void>(fused::add_layer_norm(x, residual, weight, offset, kEpsilon)); }}},
      4 * kMatrixBytes);
  const auto [norm, mean, deviation] =
      at::native_layer_norm(x, weight.sizes(), weight, offset, kEpsilon);
  const auto aten_backward = [&] {
    return std::get<0>(at::native_layer_norm_backward(gradient, x, weight.sizes(), mean, deviation,
                                                      weight, offset, {true, true, true}))
        .add_(residual);
  };
  const fused::NormStatistics statistics{mean.view({-1}), deviation.view({-1})};
  const auto fused_backward = [&](bool with_bias) {
    static_cast<void>(
        fused::layer_norm_backward(gradient, residual, x, statistics, weight, with_bias));
  };
  report("layer norm backward and residual",
         {{"aten", [&] { static_cast<void>(aten_backward()); }},
          {"fused", [&] { fused_backward(false); }}},
         4 * kMatrixBytes);
  report("layer norm backward, residual and bias gradient",
         {{"aten", [&] { static_cast<void>(aten_backward().sum(0)); }},
          {"fused", [&] { fused_backward(true); }}},
         4 * kMatrixBytes);
  report("qkv gradient and its bias gradient",
         {{"aten", [&] { static_cast<void>(torch::cat({x, residual, gradient}, -1).sum(0)); }},
          {"fused", [&] { static_cast<void>(fused::concatenate(x, residual, gradient)); }}},
         6 * kMatrixBytes);
}

void head() {
  const Tensor logits = random({kHeadRows, kVocabulary});
  const auto on_device = torch::TensorOptions().dtype(torch::kInt64).device(logits.device());
  const Tensor targets = torch::randint(0, kVocabulary, {kHeadRows, 1}, on_device);
  const auto aten = [&] {
    const Tensor log_probabilities = at::log_softmax(logits, 1, torch::kFloat32);
    static_cast<void>(log_probabilities.gather(1, targets).sum());
    Tensor gradient = log_probabilities.exp_();
    gradient.scatter_(1, targets, gradient.gather(1, targets).sub_(1.0));
    logits.copy_(gradient);
  };
  report("cross-entropy and its gradient, one block of seven",
         {{"aten", aten},
          {"fused",
           [&] {
             Tensor in_place = logits;
             static_cast<void>(
                 fused::cross_entropy_in_place(in_place, targets.view({-1}), kVocabulary, true));
           }}},
         2.0 * 2.0 * kHeadRows * kVocabulary);
}

/// Queries, keys and values as views of one tensor: [batch, sequence, heads, head_dim].
std::vector<Tensor> packed_parts() {
  return random({kBatch, kSequence, 3, kHeads, kHidden / kHeads}).unbind(2);
}

void attention() {
  const std::vector<Tensor> parts = packed_parts();
  const Tensor gradient = random({kBatch, kSequence, kHeads, kHidden / kHeads});
  const auto flash = [&] {
    return at::_flash_attention_forward(parts[0], parts[1], parts[2], {}, {}, kSequence, kSequence,
                                        0.0, true, false);
  };
  const auto [out, log_sum, random_state, unused, mask] = flash();
  const auto flash_backward = [&](const Tensor& output, const Tensor& statistics) {
    return at::_flash_attention_backward(gradient, parts[0], parts[1], parts[2], output, statistics,
                                         {}, {}, kSequence, kSequence, 0.0, true, random_state,
                                         unused);
  };
  // cuDNN's operators take [batch, heads, sequence, head_dim].
  std::vector<Tensor> heads_first;
  for (const Tensor& part : parts) heads_first.push_back(part.transpose(1, 2));
  const auto cudnn = [&] {
    return at::_scaled_dot_product_cudnn_attention(heads_first[0], heads_first[1], heads_first[2],
                                                   {}, true, 0.0, true, false);
  };
  const auto forward = cudnn();
  const Tensor cudnn_out = std::get<0>(forward), cudnn_log_sum = std::get<1>(forward);
  const auto cudnn_backward = [&] {
    return at::_scaled_dot_product_cudnn_attention_backward(
        gradient.transpose(1, 2), heads_first[0], heads_first[1], heads_first[2], cudnn_out,
        cudnn_log_sum, std::get<6>(forward), std::get<7>(forward), {}, std::get<2>(forward),
        std::get<3>(forward), kSequence, kSequence, 0.0, true);
  };
  report("attention forward", {{"flash", [&] { static_cast<void>(flash()); }},
                               {"cudnn", [&] { static_cast<void>(cudnn()); }}});
  report("attention backward", {{"flash", [&] { static_cast<void>(flash_backward(out, log_sum)); }},
                                {"cudnn", [&] { static_cast<void>(cudnn_backward()); }}});
  // Would flash's backward take what cuDNN's forward leaves?
  const Tensor statistics = cudnn_log_sum.view(log_sum.sizes()).contiguous();
  const Tensor mixed_out = cudnn_out.transpose(1, 2).contiguous();
  const auto mixed = std::get<0>(flash_backward(mixed_out, statistics)).to(torch::kFloat32);
  const auto plain = std::get<0>(flash_backward(out, log_sum)).to(torch::kFloat32);
  std::cout << R"({"case": "attention, cudnn forward and flash backward", "log_sum_error": )"
            << (statistics - log_sum).abs().max().item<double>() << R"(, "out_error": )"
            << (mixed_out - out).abs().max().item<double>() << R"(, "query_gradient_error": )"
            << ((mixed - plain).abs().max() / plain.abs().max()).item<double>() << "}" << std::endl;
  const auto same = [](const auto& a, const auto& b) {
    return torch::equal(std::get<0>(a), std::get<0>(b)) ? "true" : "false";
  };
  std::cout << R"({"case": "attention, same bits twice", "cudnn_forward": )"
            << same(cudnn(), cudnn()) << R"(, "cudnn_backward": )"
            << same(cudnn_backward(), cudnn_backward()) << R"(, "flash_backward": )"
            << same(flash_backward(out, log_sum), flash_backward(out, log_sum)) << "}" << std::endl;
}

/// The fastest algorithm of a product, by one quick look.
int fastest(const LtProduct& product) {
  std::vector<Variant> variants;
  for (int i = 0; i < product.algorithms(); ++i) {
    variants.push_back({std::to_string(i), [&product, i] { product.run(i); }});
  }
  const std::vector<double> times = test::time_in_turns(variants);
  return static_cast<int>(std::min_element(times.begin(), times.end()) - times.begin());
}

Variant best(const std::string& name, const LtProduct& product) {
  const int algorithm = fastest(product);
  return {name + " #" + std::to_string(algorithm),
          [&product, algorithm] { product.run(algorithm); }};
}

void epilogues() {
  const Tensor x = random({kTokens, kHidden}), residual = random({kTokens, kHidden});
  const Tensor expand = random({kHidden, kWide}, 0.02), contract = random({kWide, kHidden}, 0.02);
  const Tensor bias = random({kHidden}), wide_bias = random({kWide});
  const Tensor wide = random({kTokens, kWide}), auxiliary = random({kTokens, kWide});
  const Tensor gradient = random({kTokens, kHidden});
  const Tensor wide_out = torch::empty_like(wide), out = torch::empty_like(x);
  const Tensor weight_out = torch::empty_like(contract);

  const LtProduct gelu({x}, {expand}, {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, wide_bias, auxiliary, {}},
                       wide_out);
  report(
      "expand and activation",
      {{"aten", [&] { static_cast<void>(at::gelu(at::addmm(wide_bias, x, expand), "tanh")); }},
       {"fused",
        [&] { static_cast<void>(fused::activate(at::addmm(wide_bias, x, expand), "gelu_new")); }},
       {"epilogue #0", [&] { gelu.run(0); }},
       best("epilogue", gelu)});
  const LtProduct gelu_backward({gradient}, {contract, true},
                                {CUBLASLT_EPILOGUE_DGELU_BGRAD, wide_bias, auxiliary, {}},
                                wide_out);
  report("contract to its input, activation backward, bias gradient",
         {{"aten",
           [&] {
             static_cast<void>(
                 at::gelu_backward(at::mm(gradient, contract.t()), auxiliary, "tanh").sum(0));
           }},
          {"fused",
           [&] {
             static_cast<void>(
                 fused::activate_backward(at::mm(gradient, contract.t()), auxiliary, "gelu_new"));
           }},
          {"epilogue #0", [&] { gelu_backward.run(0); }},
          best("epilogue", gelu_backward)});
  const LtProduct bias_gradient({wide, true}, {gradient}, {CUBLASLT_EPILOGUE_BGRADA, bias, {}, {}},
                                weight_out);
  report("contract's weight and bias gradients", {{"aten",
                                                   [&] {
                                                     static_cast<void>(at::mm(wide.t(), gradient));
                                                     static_cast<void>(gradient.sum(0));
                                                   }},
                                                  {"fused",
                                                   [&] {
                                                     static_cast<void>(at::mm(wide.t(), gradient));
                                                     static_cast<void>(fused::column_sum(gradient));
                                                   }},
                                                  {"epilogue #0", [&] { bias_gradient.run(0); }},
                                                  best("epilogue", bias_gradient)});
  const LtProduct add({wide}, {contract}, {CUBLASLT_EPILOGUE_BIAS, bias, {}, residual}, out);
  report("contract and residual",
         {{"aten", [&] { static_cast<void>(residual + at::addmm(bias, wide, contract)); }},
          {"epilogue #0", [&] { add.run(0); }},
          best("epilogue", add)});
  Tensor buffer = torch::zeros_like(contract);
  report("contract's weight gradient into its buffer",
         {{"clear, multiply, add", [&] { buffer.zero_().add_(at::mm(wide.t(), gradient)); }},
          {"clear, multiply onto it", [&] { buffer.zero_().addmm_(wide.t(), gradient); }},
          {"multiply into it", [&] { at::mm_out(buffer, wide.t(), gradient); }}});
}

/// cuBLAS's own choice against the best that cuBLASLt proposes.
void product(const std::string& name, std::int64_t in, std::int64_t out) {
  const Tensor x = random({kTokens, in}), gradient = random({kTokens, out});
  const Tensor weight = random({in, out}, 0.02);
  const auto compare = [&](const std::string& what, const Operand& left, const Operand& right) {
    const auto side = [](const Operand& o) { return o.transposed ? o.matrix.t() : o.matrix; };
    const Tensor result = at::mm(side(left), side(right));
    const LtProduct by_lt(left, right, {}, result);
    report(name + ", " + what,
           {{"aten", [&] { static_cast<void>(at::mm(side(left), side(right))); }},
            {"lt #0", [&] { by_lt.run(0); }},
            best("lt", by_lt)});
  };
  compare("forward", {x}, {weight});
  compare("to input", {gradient}, {weight, true});
  compare("to weight", {x, true}, {gradient});
}

void products() {
  product("qkv", kHidden, 3 * kHidden);
  product("attention output", kHidden, kHidden);
  product("expand", kHidden, kWide);
  product("contract", kWide, kHidden);
}

struct Block {
  LayerNorm first, second;
  Linear packed, output, expand, contract;
};

Tensor plain(const Block& b, const Tensor& x) {
  const auto linear = [](const Linear& layer, const Tensor& in) {
    return at::addmm(layer.bias, in.reshape({-1, layer.weight.size(0)}), layer.weight)
        .view({kBatch, kSequence, -1});
  };
  const std::vector<Tensor> parts = linear(b.packed, b.first(x)).chunk(3, -1);
  const Tensor attended = merge_heads(causal_attention(
      split_heads(parts[0], kHeads), split_heads(parts[1], kHeads), split_heads(parts[2], kHeads)));
  const Tensor middle = x + linear(b.output, attended);
  return middle + linear(b.contract, at::gelu(linear(b.expand, b.second(middle)), "tanh"));
}

Tensor fused_block(const Block& b, const Tensor& x) {
  Branch place = branch(x, b.first);
  place = add_and_branch(place.trunk, b.output, packed_attention(b.packed, place.normal, kHeads),
                         b.second);
  return place.trunk + b.contract(activated(b.expand, place.normal, "gelu_new"));
}

void block() {
  const auto leaf = [](const Tensor& values) { return values.clone().requires_grad_(); };
  const auto layer = [&](std::int64_t in, std::int64_t out) {
    return Linear{leaf(random({in, out}, 0.02)), leaf(random({out}, 0.02)),
                  Linear::Layout::InputsFirst};
  };
  const auto norm = [&] {
    return LayerNorm{leaf(random({kHidden}, 0.1).add_(1.0)), leaf(random({kHidden}, 0.1)),
                     kEpsilon};
  };
  const Block b{norm(),
                norm(),
                layer(kHidden, 3 * kHidden),
                layer(kHidden, kHidden),
                layer(kHidden, kWide),
                layer(kWide, kHidden)};
  const Tensor x = leaf(random({kBatch, kSequence, kHidden}));
  const Tensor gradient = random({kBatch, kSequence, kHidden});
  // Gradients are added to what is there, as in training.
  const auto step = [&](const auto& forward) { forward(b, x).backward(gradient); };
  const auto discard = [&](const auto& forward) {
    const torch::NoGradGuard no_gradients;
    static_cast<void>(forward(b, x));
  };
  report("block, forward alone",
         {{"aten", [&] { discard(plain); }}, {"fused", [&] { discard(fused_block); }}});
  report("block, forward and backward",
         {{"aten", [&] { step(plain); }}, {"fused", [&] { step(fused_block); }}});
}

int run(const std::vector<std::string>& wanted) {
  const std::unique_ptr<Backend> backend = make_cuda_backend({});
  backend->device();
  const std::vector<std::pair<std::string, std::function<void()>>> cases{
      {"block", block},         {"operators", operators}, {"head", head},
      {"attention", attention}, {"epilogues", epilogues}, {"products", products}};
  int failures = 0;
  for (const auto& [name, body] : cases) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    try {
      body();
    } catch (const std::exception& error) {
      std::cerr << name << ": " << error.what() << std::endl;
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace athanor

int main(int argc, char** argv) {
  try {
    return athanor::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "bench_fused: " << error.what() << std::endl;
    return 1;
  }
}
