// SPDX-License-Identifier: Apache-2.0
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

namespace athanor::test {
namespace {

Provenance sample_provenance() {
  return {Source::Measured,
          "2026-11-20",
          "athanor calibrate -o p.json",
          {{"athanor", "0.1.0"}, {"compiler", "g++ 12.2"}},
          "quiet \"machine\"\n\xc3\xa9"};
}

Architecture user_architecture() {
  Architecture architecture;
  architecture.name = "user";
  architecture.units = {
      {"embedding", "embedding", {{"wte", {10, 4}}, {"scale", {}}}, {}, kAwkward, 0},
      {"block.0", "block", {{"b0.w", {4, 4}}}, {}, 32, 8},
      {"block.1", "block", {{"b1.w", {4, 4}}}, {}, 32, 8},
      {"head", "head", {}, {{0, "wte"}}, 80, 0}};
  return architecture;
}

UnitCost sample_cost(const std::string& unit_class, std::int64_t micro_batch) {
  UnitCost cost;
  cost.unit_class = unit_class;
  cost.micro_batch = micro_batch;
  cost.forward_keep = {kAwkward, 1e-300, 4096};
  cost.forward_discard = {1.0 / 3, 0, 2048};
  cost.recompute = {2.0 / 3, 0, 4096};
  cost.backward = {1e-9, 5e-324, 1024};
  cost.backward.kernels = {
      {"nvjet_sm90_tst", KernelClass::MatrixProduct, 2, kAwkward * 1e-9, 1e12, 1.0 / 3},
      {kFewKernels, KernelClass::Elementwise, 1.5, 1e-11, 0, 0}};
  cost.output_bytes = 2048;
  cost.saved_bytes = 4096;
  cost.grad_input_bytes = 512;
  return cost;
}

Curve sample_curve(double scale) {
  return {{{1024, 1e-6 * scale, 0}, {1048576, kAwkward * scale, 1.0 / 7}}};
}

std::string reason_with_text(const Break& edit) { return edit.pointer + " <- " + edit.raw; }

}  // namespace

Profile sample_profile() {
  Profile profile;
  profile.architecture = user_architecture();
  profile.device = "a device";
  profile.dtype = DataType::BFloat16;
  profile.sequence_length = 128;
  profile.compute_threads = 3;
  for (const char* unit_class : {"embedding", "block", "head"}) {
    profile.costs.push_back(sample_cost(unit_class, 1));
    profile.costs.push_back(sample_cost(unit_class, 2));
  }
  profile.batch_bytes_per_sample = 2056;
  profile.workspace_bytes = 4096;
  profile.launch_seconds = 5e-6;
  profile.matmul_flops_per_second = 6e14;
  profile.provenance = sample_provenance();
  return profile;
}

Platform sample_platform() {
  Platform platform;
  platform.name = "node";
  platform.device = "a device";
  platform.backend = "cpu";
  platform.num_devices = 2;
  platform.device_memory = 40 * kGiB;
  platform.host_memory = 128 * kGiB;
  platform.host_cores = 16;
  platform.matmul_flops_per_second = 1e12 * kAwkward;
  platform.h2d = sample_curve(1);
  platform.d2h = sample_curve(2);
  platform.d2h_add = sample_curve(14);
  platform.all_gather = {{1, sample_curve(3)}, {2, sample_curve(4)}};
  platform.reduce_scatter = {{2, sample_curve(5)}};
  platform.all_reduce = {{2, sample_curve(6)}};
  platform.cpu_adam = {{1, sample_curve(7)}, {8, sample_curve(8)}};
  platform.cpu_adam_beside = {{8, sample_curve(15)}};
  platform.device_adam = sample_curve(9);
  platform.device_square_sum = sample_curve(10);
  platform.host_square_sum = sample_curve(11);
  platform.file_read = sample_curve(12);
  platform.file_system = FileSystem{"ext4", "nvme"};
  platform.file_write = sample_curve(13);
  platform.issue = {{Lane::Compute, 6e-6}, {Lane::H2D, kAwkward * 1e-6}};
  platform.shared = {{"host memory",
                      SharedResource::Scope::Node,
                      100e9,
                      {{Lane::H2D, 50e9}, {Lane::CpuAdam, 28 * kAwkward}}},
                     {"bridge", SharedResource::Scope::Device, 60e9, {{Lane::H2D, 50e9}}}};
  platform.network =
      Network{4, 2, 25e9, 5e-6 * kAwkward, {{1, sample_curve(16)}, {2, sample_curve(17)}}};
  platform.provenance = sample_provenance();
  return platform;
}

Platform sample_platform_with_contention() {
  Platform platform = sample_platform();
  platform.num_devices = 4;
  platform.shared.clear();
  platform.contention = {{1, {{Lane::H2D, 1.5}, {Lane::CpuAdam, kAwkward}}},
                         {4, {{Lane::H2D, 2}}},
                         {1, {{Lane::Compute, 1.25}, {Lane::D2H, kAwkward}}, /*d2h_adds=*/true}};
  return platform;
}

Plan sample_plan() {
  Plan plan;
  plan.name = "zero3";
  plan.world_size = 2;
  plan.micro_batch = 4;
  plan.accumulation = 3;
  plan.dtype = DataType::BFloat16;
  plan.sequence_length = 128;
  plan.chunk_elements = 1 << 20;
  plan.cache_slots = 3;
  plan.gradient_buffers = 1;
  plan.prefetch_depth = 2;
  plan.clipping = Clipping::Wait;
  plan.max_gradient_norm = kAwkward;
  plan.cpu_adam_threads = 5;
  plan.late_updates = 2;
  plan.compute_threads = 6;
  plan.schedule = {Copies::Blocking, OptimizerStart::AfterBackward, OptimizerLanes::Serial,
                   Eviction::Fifo};
  plan.units = {{Sharding::Sharded,
                 Activation::Recompute,
                 {{3, Home::Host, Home::Host, /*gpu_adam=*/true}, {2, Home::Gpu}}},
                {Sharding::OptimizerSharded, Activation::Keep, {{1, Home::Gpu, Home::Nvme}}},
                {Sharding::Replicated, Activation::Keep, {}}};
  plan.profile_path = "profile.json";
  plan.platform_path = "platform.json";
  plan.prediction = Prediction{1.0 / 3, {1, 2, 3, 4}};
  return plan;
}

std::string broken(const std::string& text, const Break& edit) {
  const std::string marker = "@raw@";
  auto document = nlohmann::json::parse(text);
  const nlohmann::json::json_pointer pointer(edit.pointer);
  if (edit.raw.empty()) {
    document.at(pointer.parent_pointer()).erase(pointer.back());
    return document.dump();
  }
  document[pointer] = marker;
  std::string edited = document.dump();
  edited.replace(edited.find('"' + marker + '"'), marker.size() + 2, edit.raw);
  return edited;
}

InputError input_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const InputError& error) {
    return error;
  }
  FAIL("no InputError");
  throw Error("unreachable");
}

void check_rejects(const std::string& text, const std::vector<Break>& breaks,
                   const std::function<void(const std::string& text)>& read) {
  for (const Break& edit : breaks) {
    INFO(reason_with_text(edit));
    const InputError error = input_error([&] { read(broken(text, edit)); });
    const std::string message = error.what();
    CHECK(error.where() == "input.json:" + edit.where);
    CHECK(message.starts_with(error.where() + ": "));
    CHECK(message.find(". ") != std::string::npos);
  }
}

void check_rejects_truncated(const std::string& text,
                             const std::function<void(const std::string& text)>& read) {
  constexpr std::size_t kCuts = 50;
  const std::size_t whole = text.find_last_of('}');
  for (std::size_t i = 0; i < kCuts; ++i) {
    const std::size_t length = whole * i / kCuts;
    INFO("cut to " << length << " of " << text.size());
    const InputError error = input_error([&] { read(text.substr(0, length)); });
    CHECK(error.where().starts_with("input.json"));
  }
}

}  // namespace athanor::test
