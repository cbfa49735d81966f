// SPDX-License-Identifier: Apache-2.0
#include "tests/search/random_instances.hpp"

#include "sim/lowering/lowering.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/search/random_spaces.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace athanor::test {
namespace {

double log_uniform(std::mt19937& random, double low, double high) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

void scale(Curve& curve, double factor) {
  for (Curve::Point& point : curve.points) point.seconds *= factor;
}

void scale(std::vector<CollectiveCurve>& curves, double factor) {
  for (CollectiveCurve& collective : curves) scale(collective.curve, factor);
}

/// Nodes of `devices`, joined by a network that may be slower or faster than what is inside.
void spread_over_nodes(Platform& platform, std::mt19937& random, int devices) {
  platform.num_devices = devices;
  platform.network = Network{.max_nodes = 4,
                             .nics = 1,
                             .bytes_per_second = log_uniform(random, 1e8, 1e11),
                             .latency = log_uniform(random, 1e-7, 1e-4)};
  for (auto* curves : {&platform.all_gather, &platform.reduce_scatter, &platform.all_reduce}) {
    std::erase_if(*curves, [=](const CollectiveCurve& c) { return c.world_size > devices; });
  }
}

}  // namespace

void speed_up(Platform& platform, Lane lane, double factor) {
  const double seconds = 1 / factor;
  switch (lane) {
    case Lane::Compute:
      scale(platform.device_adam, seconds);
      scale(platform.device_square_sum, seconds);
      break;
    case Lane::Collective:
      for (auto* curves : {&platform.all_gather, &platform.reduce_scatter, &platform.all_reduce}) {
        scale(*curves, seconds);
      }
      if (platform.network) {
        platform.network->bytes_per_second *= factor;
        platform.network->latency *= seconds;
      }
      break;
    case Lane::H2D:
      scale(platform.h2d, seconds);
      break;
    case Lane::D2H:
      scale(platform.d2h, seconds);
      scale(platform.d2h_add, seconds);
      break;
    case Lane::CpuAdam:
      for (auto& [threads, curve] : platform.cpu_adam) scale(curve, seconds);
      for (auto& [threads, curve] : platform.cpu_adam_beside) scale(curve, seconds);
      scale(platform.host_square_sum, seconds);
      break;
    case Lane::NvmeRead:
      scale(platform.file_read, seconds);
      break;
    case Lane::NvmeWrite:
      scale(platform.file_write, seconds);
      break;
  }
  for (SharedResource& resource : platform.shared) {
    const auto use = resource.use.find(lane);
    if (use != resource.use.end()) use->second *= factor;
  }
}

Platform random_machine(std::mt19937& random, int num_gpus) {
  Platform platform = synthetic_platform(std::max(2, num_gpus));
  if (std::uniform_int_distribution<int>(0, 1)(random) == 0) platform.d2h_add = platform.h2d;
  if (std::uniform_int_distribution<int>(0, 1)(random) == 0) {
    platform.cpu_adam_beside = platform.cpu_adam;
    for (auto& [threads, curve] : platform.cpu_adam_beside) scale(curve, 1.5);
  }
  for (const Lane lane : kLanes) speed_up(platform, lane, log_uniform(random, 0.3, 3));
  for (SharedResource& resource : platform.shared) resource.capacity *= log_uniform(random, 0.3, 3);
  const int nodes = std::uniform_int_distribution<int>(1, num_gpus > 1 ? 2 : 1)(random);
  if (nodes > 1) spread_over_nodes(platform, random, num_gpus / nodes);
  if (std::uniform_int_distribution<int>(0, 1)(random) == 0) return platform;
  std::erase_if(platform.shared,
                [](const SharedResource& shared) { return shared.name != "nvme"; });
  const int ranks_per_node = num_gpus / nodes;
  for (const int ranks : {1, ranks_per_node}) {
    for (const Lane copy : {Lane::H2D, Lane::D2H}) {
      platform.contention.push_back({ranks,
                                     {{copy, log_uniform(random, 1, 1 + ranks)},
                                      {Lane::CpuAdam, log_uniform(random, 1, 1 + ranks)}}});
    }
    if (ranks_per_node == 1) break;
  }
  return platform;
}

Platform with_adding_copies(std::mt19937& random, Platform platform, int num_gpus) {
  std::erase_if(platform.shared,
                [](const SharedResource& shared) { return shared.name != "nvme"; });
  const int ranks = platform.ranks_per_node(num_gpus);
  for (const bool adds : {false, true}) {
    for (const Lane other : {Lane::Compute, Lane::H2D}) {
      platform.contention.push_back({ranks,
                                     {{Lane::D2H, log_uniform(random, 1, adds ? 4 : 1.5)},
                                      {other, log_uniform(random, 1, adds ? 4 : 1.5)}},
                                     adds});
    }
  }
  return platform;
}

Question random_question(std::mt19937& random, int num_gpus) {
  Question question;
  const int blocks = std::uniform_int_distribution<int>(2, 4)(random);
  const bool tied = std::uniform_int_distribution<int>(0, 1)(random) == 1;
  question.profile = synthetic_profile(small_architecture(blocks, tied), 64, {1, 2});
  question.request = {.num_gpus = num_gpus, .global_batch = 2 * num_gpus};
  question.request.limits.gpu = std::uniform_int_distribution<Bytes>(30'000, 400'000)(random);
  question.request.limits.nvme = kGiB;
  if (std::uniform_int_distribution<int>(0, 3)(random) == 0) {
    question.request.clipping = Clipping::Wait;
    question.request.clipped_share = std::uniform_real_distribution<double>(0, 1)(random);
  }
  question.space =
      random_space(random, with_groups({{1, 2}, {2, 1}}, question.profile.architecture));
  question.space.gpu_adam_units = {0, std::uniform_int_distribution<int>(1, blocks + 1)(random)};
  question.space.late_updates = {0, std::uniform_int_distribution<int>(1, blocks + 1)(random)};
  if (question.request.clipping != Clipping::None) {
    question.profile.dtype = DataType::BFloat16;
    question.space.speculate = {false, true};
    question.space.clips = true;
  }
  return question;
}

Question with_split_blocks(Question question) {
  const DataType dtype = question.profile.dtype;
  question.profile =
      synthetic_profile(with_split_blocks(question.profile.architecture), 64, {1, 2});
  question.profile.dtype = dtype;
  question.space.attention_on_gpu = {false, true};
  return question;
}

Question with_four_micro_batches(Question question) {
  question.request.global_batch *= 2;
  question.space.batches = with_groups({{1, 4}}, question.profile.architecture);
  return question;
}

Question with_snapshots(std::mt19937& random, Question question) {
  // A redo log has 25 MiB of undo slots, which only large models do not notice.
  constexpr std::int64_t kLarger = 4000;
  Architecture architecture = question.profile.architecture;
  for (Unit& unit : architecture.units) {
    for (Parameter& parameter : unit.parameters) parameter.shape.front() *= kLarger;
  }
  const DataType dtype = question.profile.dtype;
  question.profile = synthetic_profile(architecture, 64, {1, 2});
  question.profile.dtype = dtype;
  question.request.limits.gpu *= kLarger;
  question.request.limits.host = std::uniform_int_distribution<Bytes>(150, 500)(random) * kMiB;
  SearchSpace& space = question.space;
  for (std::int64_t& elements : space.chunk_elements) elements *= kLarger;
  space.trailing_nvme_optimizer = space.gpu_adam_units = {0};
  // Copies alone go with state on the GPU.
  for (std::vector<int>* const units :
       {&space.leading_gpu_optimizer, &space.trailing_gpu_optimizer}) {
    if (std::ranges::count(*units, 0) == 0) units->push_back(0);
  }
  space.nvme_parameters = {false};
  space.snapshots = {Snapshot::Redo, Snapshot::Versions, Snapshot::Copy};
  return question;
}

MemoryCheck memory_of(const Question& question, const Platform& platform) {
  const auto peak = [&question](const Candidate& candidate) {
    const auto& [profile, request, space] = question;
    return plan_peak_bytes(profile, make_plan(candidate, profile, request));
  };
  return {peak, effective_limits(question.request, platform),
          platform.ranks_per_node(question.request.num_gpus)};
}

std::vector<Simulated> simulate_all(const Question& question, const Platform& platform,
                                    Engine& engine) {
  const auto& [profile, request, space] = question;
  const MemoryLimits limits = effective_limits(request, platform);
  std::vector<Simulated> all;
  std::int64_t index = 0;
  const auto simulate = [&](const Candidate& candidate) {
    const Program program = lower(profile, make_plan(candidate, profile, request));
    const TierBytes peak = peak_bytes(program);
    if (fits(peak, platform.ranks_per_node(request.num_gpus), limits)) {
      const Timeline timeline = engine.simulate(program, {.record_intervals = false});
      all.push_back(
          {candidate, index, timeline.step_seconds, total_bytes(peak), timeline.step_joules});
    }
    ++index;
  };
  enumerate(space, profile.architecture, request.num_gpus, simulate, memory_of(question, platform));
  std::ranges::sort(all, {}, [](const Simulated& one) {
    return std::tuple(one.step_seconds, one.bytes, one.index);
  });
  return all;
}

}  // namespace athanor::test
