// SPDX-License-Identifier: Apache-2.0
// Which operators launches are said to come from, and what those compute and move. On the CPU: a
// tracer that makes an activity of every operator stands in for CUPTI.
#include "calibrate/profile/operator_costs.hpp"
#include "calibrate/profile/operator_trace.hpp"
#include "calibrate/profile/profile_model.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "sim/base/errors.hpp"
#include "tests/units/tiny_models.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <thread>

namespace athanor {
namespace {

/// One microsecond for everything that is popped, named after nothing but its number.
class CountingTracer final : public KernelTracer {
 public:
  [[nodiscard]] std::string version() const override { return "0"; }
  void start() override {
    if (fails) throw Error("no tracer here. Look elsewhere.");
    activities_.clear();
  }
  void push(std::uint64_t origin) noexcept override { open().push_back(origin); }
  void pop() noexcept override {
    constexpr TraceTime kMicrosecond = 1000;
    TracedActivity activity;
    activity.name = "gemm";
    activity.origin = open().back();
    activity.end = kMicrosecond;
    open().pop_back();
    const std::lock_guard lock(mutex_);
    activities_.push_back(activity);
  }
  [[nodiscard]] std::vector<TracedActivity> stop() override { return std::move(activities_); }

  bool fails = false;

 private:
  static std::vector<std::uint64_t>& open() {
    thread_local std::vector<std::uint64_t> origins;
    return origins;
  }
  std::mutex mutex_;
  std::vector<TracedActivity> activities_;
};

/// Trace of the operators that `body` calls in one phase, by name; sums.
std::map<std::string, LaunchOrigin> seen_in(const std::function<void()>& body) {
  CountingTracer tracer;
  OperatorTrace trace(tracer);
  trace.begin({"unit", 1, UnitPhase::Backward, 0});
  body();
  trace.end();
  const KernelTrace found = trace.finish();
  CHECK(found.activities.size() == found.origins.size());
  std::map<std::string, LaunchOrigin> seen;
  for (const LaunchOrigin& origin : found.origins) {
    LaunchOrigin& sum = seen[origin.name];
    sum.flops += origin.flops;
    sum.bytes += origin.bytes;
  }
  return seen;
}

torch::Tensor bf16(at::IntArrayRef shape) { return torch::randn(shape).to(torch::kBFloat16); }

TEST_CASE("matrix products count two FLOPs for each multiply-add, and their tensors' bytes") {
  const torch::Tensor a = torch::randn({3, 5}), b = torch::randn({5, 7}), c = torch::randn({7});
  const torch::Tensor batch = torch::randn({2, 3, 5});
  torch::Tensor out = torch::zeros({3, 7});
  auto seen = seen_in([&] { (void)at::mm(a, b); });
  CHECK(seen.at("aten::mm").flops == 2 * 3 * 5 * 7);
  CHECK(seen.at("aten::mm").bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7));
  seen = seen_in([&] { at::mm_out(out, a, b); });
  CHECK(seen.at("aten::mm").bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7));
  seen = seen_in([&] { (void)at::addmm(c, a, b); });
  CHECK(seen.at("aten::addmm").flops == 2 * 3 * 5 * 7);
  seen = seen_in([&] { out.addmm_(a, b); });
  CHECK(seen.at("aten::addmm_").flops == 2 * 3 * 5 * 7);
  CHECK(seen.at("aten::addmm_").bytes == 4 * (3 * 5 + 5 * 7 + 2 * 3 * 7));
  seen = seen_in([&] { (void)at::bmm(batch, batch.transpose(1, 2)); });
  CHECK(seen.at("aten::bmm").flops == 2 * 2 * 3 * 5 * 3);
}

TEST_CASE("attention counts two products forward and five backward, half of them where causal") {
  const std::int64_t b = 2, h = 3, s = 16, d = 8;
  const double products = 2.0 * b * h * s * s * d;
  const bool causal = true;
  const auto queries = [&] { return torch::randn({b, h, s, d}).requires_grad_(); };
  const torch::Tensor q = queries(), k = queries(), v = queries();
  const auto total = [](const std::map<std::string, LaunchOrigin>& seen, const char* part) {
    double flops = 0;
    for (const auto& [name, origin] : seen) {
      if (name.find(part) != std::string::npos) flops = std::max(flops, origin.flops);
    }
    return flops;
  };
  torch::Tensor out;
  const auto forward =
      seen_in([&] { out = at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal); });
  CHECK(total(forward, "attention_for_cpu") == 2 * products / 2);
  const auto backward = seen_in([&] { out.sum().backward(); });
  CHECK(total(backward, "attention_for_cpu_backward") == 5 * products / 2);
  const auto whole = seen_in([&] { (void)at::scaled_dot_product_attention(q, k, v); });
  CHECK(total(whole, "attention_for_cpu") == 2 * products);
}

/// `attention` with batch 2, 3 heads of 5, 7 queries and 11 keys, as the schema wants it.
double attention_flops(const std::string& schema_text, bool heads_first, const c10::IValue& mask) {
  const auto of = [&](std::int64_t sequence) {
    return heads_first ? torch::zeros({2, 3, sequence, 5}) : torch::zeros({2, sequence, 3, 5});
  };
  const c10::FunctionSchema schema = torch::jit::parseSchema(schema_text);
  const std::vector<c10::IValue> inputs{of(7), of(11), mask};
  return operator_flops({schema, c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size())});
}

TEST_CASE("attention's FLOPs do not depend on the library's layout and mask") {
  constexpr double kProduct = 2.0 * 2 * 3 * 5 * 7 * 11;
  const std::string arguments = "(Tensor query, Tensor key, ";
  CHECK(attention_flops("aten::_cudnn_attention_forward" + arguments + "bool is_causal) -> Tensor",
                        true, false) == 2 * kProduct);
  CHECK(attention_flops("aten::_flash_attention_forward" + arguments + "bool is_causal) -> Tensor",
                        false, true) == kProduct);
  CHECK(attention_flops(
            "aten::_efficient_attention_backward" + arguments + "int custom_mask_type) -> Tensor",
            false, 1) == 2.5 * kProduct);
  CHECK(attention_flops(
            "aten::_efficient_attention_forward" + arguments + "int custom_mask_type) -> Tensor",
            false, 0) == 2 * kProduct);
  CHECK(attention_flops("aten::attention_of_somebody(Tensor q, Tensor k, bool x) -> Tensor", false,
                        true) == 0);
}

TEST_CASE("bytes are those that an operator has to move") {
  const torch::Tensor x = bf16({4, 6}), row = bf16({6});
  torch::Tensor y = bf16({4, 6});
  CHECK(seen_in([&] { (void)at::add(x, y); }).at("aten::add").bytes == 2 * 3 * 24);
  CHECK(seen_in([&] { (void)at::add(x, row.expand({4, 6})); }).at("aten::add").bytes ==
        2 * (24 + 6 + 24));
  CHECK(seen_in([&] { y.copy_(x); }).at("aten::copy_").bytes == 2 * 2 * 24);
  CHECK(seen_in([&] { y.zero_(); }).at("aten::zero_").bytes == 2 * 24);
  const torch::Tensor table = torch::randn({1000, 8});
  const torch::Tensor ids = torch::tensor({5, 6, 7}, torch::kInt64);
  CHECK(seen_in([&] { (void)at::embedding(table, ids); }).at("aten::embedding").bytes ==
        3 * 8 + 2 * 4 * 3 * 8);
  CHECK(seen_in([&] { (void)at::cat({x, y}); }).at("aten::cat").bytes == 2 * 4 * 24);
  CHECK(seen_in([&] { (void)at::relu(x); }).at("aten::relu").flops == 0);
}

TEST_CASE("operators of other threads belong to the phase; those outside of a phase are left out") {
  const torch::Tensor a = torch::randn({4, 4});
  CountingTracer tracer;
  OperatorTrace trace(tracer);
  (void)at::mm(a, a);
  trace.begin({"unit", 1, UnitPhase::ForwardKeep, 0});
  std::thread([&] { (void)at::mm(a, a); }).join();
  trace.end();
  (void)at::mm(a, a);
  trace.begin({"unit", 1, UnitPhase::Backward, 0});
  trace.end();
  const KernelTrace found = trace.finish();
  (void)at::mm(a, a);
  REQUIRE(found.phases.size() == 2);
  REQUIRE(found.origins.size() >= 3);
  CHECK(found.origins.front().name.empty());
  CHECK(found.origins.back().name.empty());
  CHECK(found.origins.back().phase == 1);
  // An operator may call others.
  CHECK(std::count_if(found.origins.begin(), found.origins.end(), [](const LaunchOrigin& origin) {
          return origin.name == "aten::mm" && origin.phase == 0;
        }) == 1);
}

ProfileOptions quick_options() {
  ProfileOptions options;
  options.sequence_length = 16;
  options.micro_batches = {1, 2};
  options.rule = {.min_repetitions = 2, .max_repetitions = 2};
  return options;
}

TEST_CASE("a profile with a tracer has kernels in every phase; one without has none") {
  CountingTracer tracer;
  HostMeter meter;
  ProfileOptions options = quick_options();
  std::size_t traces = 0;
  options.traced = [&](const std::vector<KernelTrace>& found) { traces = found.size(); };
  const Architecture architecture = test::tiny_architecture("gpt2");
  const Profile profile = profile_language_model(architecture, DataType::Float32, options,
                                                 {meter, "device", {}, &tracer});
  CHECK(traces == profile.costs.size());
  for (const UnitCost& cost : profile.costs) {
    CAPTURE(cost.unit_class, cost.micro_batch);
    for (const auto& phase :
         {cost.forward_keep, cost.forward_discard, cost.recompute, cost.backward}) {
      REQUIRE(phase.kernels.size() == 1);
      CHECK(phase.kernels[0].count >= 1);
      CHECK(phase.kernels[0].bytes > 0);
    }
  }
  // Backward multiplies twice for each product of forward; attention five times for two.
  const UnitCost& block = profile.cost("block", 2);
  CHECK(block.forward_keep.kernels[0].flops > 0);
  CHECK(block.recompute.kernels[0].flops == block.forward_keep.kernels[0].flops);
  CHECK(block.backward.kernels[0].flops > 1.9 * block.forward_keep.kernels[0].flops);
  CHECK(profile.provenance.notes.find("under the trace") != std::string::npos);
  const Profile without = profile_language_model(architecture, DataType::Float32, quick_options());
  CHECK(without.costs[0].backward.kernels.empty());
  CHECK(without.provenance.notes.empty());
}

TEST_CASE("a tracer that fails leaves a profile without kernels, which says why") {
  CountingTracer tracer;
  tracer.fails = true;
  HostMeter meter;
  ProfileOptions options = quick_options();
  options.traced = [](const std::vector<KernelTrace>&) { FAIL("nothing was traced"); };
  const Profile profile = profile_language_model(test::tiny_architecture("gpt2"), DataType::Float32,
                                                 options, {meter, "device", {}, &tracer});
  CHECK(profile.costs[0].backward.seconds > 0);
  CHECK(profile.costs[0].backward.kernels.empty());
  CHECK(profile.provenance.notes == "kernels were not traced: no tracer here. Look elsewhere.");
}

}  // namespace
}  // namespace athanor
