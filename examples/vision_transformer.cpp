// SPDX-License-Identifier: Apache-2.0
// A model of your own: a small vision transformer that tells shapes apart in images that it draws.
//
// Read from the bottom: main() profiles the model, makes a plan and trains. Everything above it is
// ordinary LibTorch. usage: vision_transformer [STEPS]
#include "calibrate/profile/profile_model.hpp"
#include "executor/backend/collectives_local.hpp"
#include "executor/train/trainer.hpp"
#include "executor/units/user_model.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::int64_t kImage = 16, kPatch = 4, kWidth = 64, kHeads = 4, kBlocks = 4;
constexpr std::int64_t kPatches = (kImage / kPatch) * (kImage / kPatch);
constexpr std::int64_t kClasses = 3;  // disc, square, cross

// ---- The data: sample i is a function of i alone --------------------------------------------

/// One image: distances from a centre that moves with the sample, cut by the shape's own norm.
torch::Tensor draw(std::int64_t sample, std::int64_t shape) {
  const auto centre = [&](std::int64_t period) {
    return 6.0 + static_cast<double>(sample % period);
  };
  const torch::Tensor axis = torch::arange(kImage, torch::kFloat32);
  const torch::Tensor x = (axis - centre(5)).abs().view({1, kImage});
  const torch::Tensor y = (axis - centre(3)).abs().view({kImage, 1});
  constexpr double kRadius = 4;
  if (shape == 0) return ((x * x + y * y) < kRadius * kRadius).to(torch::kFloat32);
  if (shape == 1) return (torch::maximum(x, y) < kRadius).to(torch::kFloat32);
  return (torch::minimum(x, y) < 1).to(torch::kFloat32);
}

athanor::Batch shapes(std::int64_t first, std::int64_t count) {
  std::vector<torch::Tensor> images;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = first; i < first + count; ++i) {
    labels.push_back((i * 7 + i / 5) % kClasses);
    images.push_back(draw(i, labels.back()));
  }
  return {torch::stack(images).unsqueeze(1), torch::tensor(labels)};
}

// ---- The model: LibTorch modules ------------------------------------------------------------

struct PatchEmbedding : torch::nn::Module {
  PatchEmbedding() {
    positions = register_parameter("positions", torch::randn({1, kPatches, kWidth}) * 0.02);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    return project->forward(images).flatten(2).transpose(1, 2) + positions;
  }
  torch::nn::Conv2d project{register_module(
      "project", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, kWidth, kPatch).stride(kPatch)))};
  torch::Tensor positions;
};

struct Block : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x + attention(norm1->forward(x));
    return y + down->forward(torch::gelu(up->forward(norm2->forward(y))));
  }

 private:
  torch::Tensor attention(const torch::Tensor& x) {
    const torch::Tensor heads = qkv->forward(x)
                                    .view({x.size(0), kPatches, 3, kHeads, kWidth / kHeads})
                                    .permute({2, 0, 3, 1, 4});
    const torch::Tensor mixed =
        torch::scaled_dot_product_attention(heads[0], heads[1], heads[2]).transpose(1, 2);
    return out->forward(mixed.reshape(x.sizes()));
  }

  torch::nn::LayerNorm norm1{register_module("norm1", make_norm())};
  torch::nn::LayerNorm norm2{register_module("norm2", make_norm())};
  torch::nn::Linear qkv{register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(kWidth, kWidth))};
  torch::nn::Linear up{register_module("up", torch::nn::Linear(kWidth, 4 * kWidth))};
  torch::nn::Linear down{register_module("down", torch::nn::Linear(4 * kWidth, kWidth))};

  static torch::nn::LayerNorm make_norm() {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
  }
};

/// Any module with a forward(Tensor) becomes a unit: what is fetched, computed and released at
/// once.
template <typename Module>
athanor::UserUnit unit(const std::string& name, std::shared_ptr<Module> module) {
  return {name, module, [module](const torch::Tensor& x) { return module->forward(x); }};
}

athanor::Model make_vision_transformer() {
  torch::manual_seed(1);
  std::vector<athanor::UserUnit> units{unit("patches", std::make_shared<PatchEmbedding>())};
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    units.push_back(unit("block." + std::to_string(i), std::make_shared<Block>()));
  }
  const auto classifier = std::make_shared<torch::nn::LinearImpl>(kWidth, kClasses);
  units.push_back({"head", classifier, [classifier](const torch::Tensor& x) {
                     return classifier->forward(x.mean(1));
                   }});
  const auto loss = [](const torch::Tensor& scores, const athanor::Batch& batch) {
    return torch::nn::functional::cross_entropy(scores, batch.targets);
  };
  return athanor::make_user_model(
      "vision-transformer", units, loss, [](std::int64_t count) { return shapes(0, count); },
      athanor::DataType::Float32);
}

// ---- The plan: here by hand; `athanor tune` finds the fastest that fits ----------------------

/// Parameters and optimizer state on the host, two units on the device at a time, activations
/// computed again in backward.
athanor::Plan make_plan(const athanor::Architecture& architecture) {
  athanor::Plan plan;
  plan.name = "by hand";
  plan.micro_batch = 16;
  plan.accumulation = 2;
  plan.sequence_length = 1;
  plan.chunk_elements = 16384;
  plan.clipping = athanor::Clipping::Wait;
  for (const athanor::Unit& unit : architecture.units) {
    const std::int64_t chunks = athanor::num_chunks(unit, plan.chunk_elements, plan.world_size);
    plan.units.push_back({.sharding = athanor::Sharding::Sharded,
                          .activation = athanor::Activation::Recompute,
                          .chunks = {{chunks, athanor::Home::Host, athanor::Home::Host}}});
  }
  return plan;
}

int run(std::int64_t steps) {
  const athanor::Model model = make_vision_transformer();
  const athanor::Plan plan = make_plan(model.architecture);
  athanor::ProfileOptions profiling;
  profiling.sequence_length = plan.sequence_length;
  profiling.micro_batches = {plan.micro_batch};
  const athanor::Profile profile = athanor::profile_model(model, profiling);

  athanor::TrainOptions options;
  options.schedule = {.peak = 1e-3, .warmup_steps = 5, .total_steps = steps};
  const auto alone = athanor::make_local_collectives();
  athanor::Trainer trainer(model, profile, plan, shapes, options, *alone);
  trainer.start_fresh();
  trainer.train_until(steps, [&](const athanor::StepReport& report) {
    fmt::print("step {}/{} | loss {:.4f} | {:.1f} ms\n", report.step, steps, report.loss,
               report.seconds * 1e3);
  });
  fmt::print("device memory: accounted {} B, measured {} B\n",
             athanor::peak_bytes(trainer.program()).gpu, trainer.peak_bytes().gpu);
  return athanor::kExitDone;
}

}  // namespace

int main(int argc, char** argv) {
  return athanor::run_main("vision_transformer",
                           [&] { return run(argc > 1 ? std::stoll(argv[1]) : 60); });
}
