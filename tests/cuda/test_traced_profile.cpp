// SPDX-License-Identifier: Apache-2.0
// A profile with kernels on a GPU: they add up to the phases, their classes are known, and their
// FLOPs are the model's.
#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/kernels/kineto_trace.hpp"
#include "calibrate/profile/profile_model.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "executor/backend/cuda_plugin.hpp"
#include "sim/interchange/import_kineto.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <sstream>

namespace {

using namespace athanor;
using Catch::Approx;

constexpr std::int64_t kSequence = 1024;
constexpr std::int64_t kMicroBatch = 8;

/// Wide enough for kernels that are long beside the gaps between them.
Architecture wide_gpt2() {
  LanguageModelConfig config;
  config.model_type = "gpt2";
  config.vocab_size = 50257;
  config.hidden_size = 2048;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 16;
  config.head_dim = 128;
  config.intermediate_size = 4 * config.hidden_size;
  config.max_positions = kSequence;
  config.activation = "gelu_new";
  config.tie_word_embeddings = true;
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  return make_architecture("wide", config);
}

struct Traced {
  Profile profile;
  std::vector<KernelTrace> traces;
};

/// Once for all tests.
const Traced& traced() {
  static const Traced once = [] {
    const std::unique_ptr<CudaCalibrator> cuda = load_cuda_calibrator();
    const std::unique_ptr<UnitMeter> meter = cuda->unit_meter(0);
    const std::unique_ptr<KernelTracer> tracer = cuda->kernel_tracer();
    Traced result;
    ProfileOptions options;
    options.sequence_length = kSequence;
    options.micro_batches = {kMicroBatch};
    options.traced = [&](std::vector<KernelTrace> found) { result.traces = std::move(found); };
    result.profile =
        profile_language_model(wide_gpt2(), DataType::BFloat16, options,
                               {*meter, cuda->device_name(0), cuda->versions(), tracer.get()});
    return result;
  }();
  return once;
}

void require_device() {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
}

Seconds kernel_seconds(const PhaseCost& phase) {
  Seconds total = 0;
  for (const KernelCost& kernel : phase.kernels) total += kernel.seconds;
  return total;
}

struct NamedPhase {
  std::string name;
  const PhaseCost& cost;
};

std::vector<NamedPhase> phases(const Profile& profile) {
  std::vector<NamedPhase> all;
  for (const UnitCost& cost : profile.costs) {
    all.push_back({cost.unit_class + " forward", cost.forward_keep});
    all.push_back({cost.unit_class + " forward without autograd", cost.forward_discard});
    all.push_back({cost.unit_class + " recompute", cost.recompute});
    all.push_back({cost.unit_class + " backward", cost.backward});
  }
  return all;
}

}  // namespace

TEST_CASE("phases of a unit are measured as CUDA graphs, too") {
  if (const std::string problem = why_no_cuda(); !problem.empty()) SKIP(problem);
  const Profile& profile = traced().profile;
  REQUIRE(profile.measures_graphs(kMicroBatch));
  for (const UnitCost& cost : profile.costs) {
    INFO(cost.unit_class);
    for (const auto phase : kUnitPhases) {
      const PhaseCost& launched = cost.*phase;
      CHECK(launched.replay->seconds == Approx(launched.seconds).epsilon(0.1).margin(5e-6));
      CHECK(launched.replay->issue_seconds > 0);
      CHECK(launched.replay->graph_bytes > 0);
      CHECK(launched.replay->graph_bytes < kMiB);
    }
    CHECK(cost.backward.replay->issue_seconds < cost.backward.issue_seconds);
  }
}

TEST_CASE("kernels add up to the phases' device time") {
  require_device();
  UNSCOPED_INFO(traced().profile.provenance.notes);
  for (const auto& [name, phase] : phases(traced().profile)) {
    CAPTURE(name, kernel_seconds(phase), phase.seconds);
    REQUIRE_FALSE(phase.kernels.empty());
    // Kernels of the embedding last microseconds, as the gaps between them do.
    const double tolerance = name.starts_with("embedding") ? 0.5 : 0.1;
    CHECK(kernel_seconds(phase) == Approx(phase.seconds).epsilon(tolerance));
  }
}

TEST_CASE("backward is measured with both kinds of kernels, and forward with one") {
  require_device();
  const Profile& profile = traced().profile;
  REQUIRE(profile.measures_both_kernels());
  CHECK_FALSE(profile.always_deterministic);
  for (const UnitCost& cost : profile.costs) {
    const PhaseCost& fastest = profile.backward(cost, /*deterministic=*/false);
    CAPTURE(cost.unit_class, fastest.seconds, cost.backward.seconds);
    CHECK(fastest.seconds > 0.3 * cost.backward.seconds);
    CHECK(fastest.seconds < 1.25 * cost.backward.seconds);
    CHECK(fastest.issue_seconds > 0);
  }
}

TEST_CASE("the classes of kernels are known for nine tenths of the time") {
  require_device();
  for (const auto& [name, phase] : phases(traced().profile)) {
    Seconds unknown = 0;
    std::string names;
    for (const KernelCost& kernel : phase.kernels) {
      if (kernel.kind != KernelClass::Other) continue;
      unknown += kernel.seconds;
      names += kernel.name + "; ";
    }
    CAPTURE(name, names);
    CHECK(unknown <= 0.1 * kernel_seconds(phase));
  }
}

TEST_CASE("the kernels' FLOPs are the architecture's") {
  require_device();
  const Profile& profile = traced().profile;
  for (const Unit& unit : profile.architecture.units) {
    const PhaseCost& forward = profile.cost(unit.unit_class, kMicroBatch).forward_discard;
    double flops = 0;
    for (const KernelCost& kernel : forward.kernels) flops += kernel.flops;
    const double expected =
        static_cast<double>(kMicroBatch * kSequence) *
        (unit.forward_flops_per_token +
         unit.forward_flops_per_token_per_context * static_cast<double>(kSequence));
    CAPTURE(unit.name);
    CHECK(flops == Approx(expected).epsilon(0.02));  // the vocabulary is padded
  }
}

TEST_CASE("the trace file holds the kernels of every phase") {
  require_device();
  std::ostringstream out;
  write_kineto_trace(out, traced().traces, traced().profile.device);
  const std::string text = out.str();
  const KinetoTable table =
      read_kineto_step([&] { return std::make_unique<std::istringstream>(text); }, "trace.json",
                       std::nullopt, nullptr);
  CHECK(table.device == traced().profile.device);
  const std::string block = "block, micro-batch " + std::to_string(kMicroBatch) + ", ";
  Seconds backward = 0;
  for (const KinetoRow& row : table.rows) {
    if (row.module == block + "backward") backward += row.total();
  }
  // Once after forward and once after recompute.
  const PhaseCost& cost = traced().profile.cost("block", kMicroBatch).backward;
  CHECK(backward == Approx(2 * kernel_seconds(cost)).epsilon(0.1));
}
