// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/programs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace athanor::test {
namespace {

Curve linear(double seconds_per_unit) { return {{{0, 0, 0}, {1e9, 1e9 * seconds_per_unit, 0}}}; }

double uniform(std::mt19937& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

}  // namespace

Platform plain_platform() {
  constexpr double kPerUnit = 1e-9;
  Platform platform;
  platform.name = "plain";
  platform.device = "none";
  platform.backend = "cpu";
  platform.h2d = platform.d2h = linear(kPerUnit);
  for (const int world_size : {1, 2, 3, 4, 8}) {
    const CollectiveCurve curve{world_size, linear(kPerUnit)};
    platform.all_gather.push_back(curve);
    platform.reduce_scatter.push_back(curve);
    platform.all_reduce.push_back(curve);
  }
  platform.cpu_adam[1] = linear(kPerUnit);
  platform.device_adam = platform.device_square_sum = linear(kPerUnit / 10);
  platform.host_square_sum = linear(kPerUnit / 2);
  platform.file_read = platform.file_write = linear(kPerUnit);
  return platform;
}

Platform cluster(Platform node, int devices) {
  constexpr int kMostRanks = 64;
  node.num_devices = devices;
  node.network = Network{
      .max_nodes = kMostRanks / devices, .nics = 2, .bytes_per_second = 1e9, .latency = 1e-6};
  for (auto* curves : {&node.all_gather, &node.reduce_scatter, &node.all_reduce}) {
    std::erase_if(*curves, [=](const CollectiveCurve& c) { return c.world_size > devices; });
  }
  return node;
}

void share(Platform& platform, SharedResource::Scope scope, double capacity,
           const std::vector<Lane>& lanes, double use) {
  SharedResource resource;
  resource.name = "resource " + std::to_string(platform.shared.size());
  resource.scope = scope;
  resource.capacity = capacity;
  for (const Lane lane : lanes) resource.use[lane] = use;
  platform.shared.push_back(std::move(resource));
}

std::int32_t ProgramBuilder::add(Operation op, std::vector<std::int32_t> waits) {
  op.waits = std::move(waits);
  program_.operations.push_back(std::move(op));
  return static_cast<std::int32_t>(program_.operations.size()) - 1;
}

std::int32_t ProgramBuilder::compute(Seconds seconds, std::vector<std::int32_t> waits) {
  Operation op;
  op.compute_seconds = seconds;
  return add(std::move(op), std::move(waits));
}

std::int32_t ProgramBuilder::kernel(Seconds full_clock, Seconds sustained, double watts,
                                    std::vector<std::int32_t> waits) {
  const std::int32_t operation = compute(sustained, std::move(waits));
  Operation& op = program_.operations[static_cast<std::size_t>(operation)];
  op.unthrottled_seconds = full_clock;
  op.watts = watts;
  return operation;
}

std::int32_t ProgramBuilder::transfer(OpKind kind, Lane lane, Bytes bytes,
                                      std::vector<std::int32_t> waits) {
  Operation op;
  op.kind = kind;
  op.lane = lane;
  op.bytes = bytes;
  return add(std::move(op), std::move(waits));
}

std::int32_t ProgramBuilder::copy_in(Bytes bytes, std::vector<std::int32_t> waits) {
  return transfer(OpKind::Fetch, Lane::H2D, bytes, std::move(waits));
}

std::int32_t ProgramBuilder::copy_out(Bytes bytes, std::vector<std::int32_t> waits) {
  return transfer(OpKind::GradD2H, Lane::D2H, bytes, std::move(waits));
}

std::int32_t ProgramBuilder::reduce(std::int64_t elements, bool adds,
                                    std::vector<std::int32_t> waits) {
  program_.dtype = DataType::BFloat16;
  program_.gradient_dtype = DataType::Float32;
  const std::int32_t reduced = transfer(OpKind::Reduce, Lane::Collective,
                                        elements * size_of(program_.dtype), std::move(waits));
  Operation& op = program_.operations.back();
  op.accumulate = adds;
  op.stored = elements / program_.world_size;
  return reduced;
}

std::int32_t ProgramBuilder::add_out(Bytes bytes, std::vector<std::int32_t> waits) {
  const std::int32_t added = transfer(OpKind::GradD2H, Lane::D2H, bytes, std::move(waits));
  program_.operations.back().accumulate = true;
  return added;
}

std::int32_t ProgramBuilder::gather(Bytes bytes, std::vector<std::int32_t> waits) {
  return transfer(OpKind::Gather, Lane::Collective, bytes, std::move(waits));
}

std::int32_t ProgramBuilder::read_file(Bytes bytes, std::vector<std::int32_t> waits) {
  return transfer(OpKind::StateRead, Lane::NvmeRead, bytes, std::move(waits));
}

std::int32_t ProgramBuilder::write_file(Bytes bytes, std::vector<std::int32_t> waits) {
  return transfer(OpKind::StateWrite, Lane::NvmeWrite, bytes, std::move(waits));
}

std::int32_t ProgramBuilder::adam(std::int64_t elements, std::vector<std::int32_t> waits) {
  Operation op;
  op.kind = OpKind::Adam;
  op.lane = Lane::CpuAdam;
  op.elements = elements;
  return add(std::move(op), std::move(waits));
}

ProgramBuilder& ProgramBuilder::issue(std::int32_t operation, Seconds seconds) {
  program_.operations[static_cast<std::size_t>(operation)].issue_seconds = seconds;
  return *this;
}

ProgramBuilder& ProgramBuilder::after_previous(std::int32_t operation, std::int32_t previous) {
  program_.operations[static_cast<std::size_t>(operation)].previous_waits.push_back(previous);
  return *this;
}

Interval find(const Timeline& timeline, std::int32_t operation, int step, int rank) {
  const auto found = std::find_if(
      timeline.intervals.begin(), timeline.intervals.end(), [&](const Interval& interval) {
        return interval.operation == operation && interval.step == step && interval.rank == rank;
      });
  if (found == timeline.intervals.end()) throw std::out_of_range("no such interval");
  return *found;
}

bool identical(const Timeline& a, const Timeline& b) {
  const auto same_bits = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  return same_bits(a.step_seconds, b.step_seconds) &&
         std::equal(a.intervals.begin(), a.intervals.end(), b.intervals.begin(), b.intervals.end(),
                    [&](const Interval& x, const Interval& y) {
                      return x.operation == y.operation && x.rank == y.rank && x.step == y.step &&
                             same_bits(x.start, y.start) && same_bits(x.end, y.end);
                    });
}

Program random_program(std::mt19937& random, int world_size, int num_operations) {
  ProgramBuilder builder(world_size);
  for (int i = 0; i < num_operations; ++i) {
    std::vector<std::int32_t> waits;
    for (int w = pick(random, 0, 2); w > 0 && i > 0; --w) waits.push_back(pick(random, 0, i - 1));
    const auto size = static_cast<Bytes>(uniform(random, 0, 1e9));
    const auto small = static_cast<Bytes>(uniform(random, 0, 1) < 0.1 ? 0 : size);
    switch (pick(random, 0, 4)) {
      case 0:
        builder.compute(static_cast<double>(small) * 1e-9, waits);
        break;
      case 1:
        builder.copy_in(small, waits);
        break;
      case 2:
        builder.copy_out(small, waits);
        break;
      case 3:
        builder.gather(small, waits);
        break;
      default:
        builder.adam(small, waits);
    }
    if (pick(random, 0, 3) == 0) builder.after_previous(i, pick(random, 0, i));
  }
  Program program = builder.program();
  for (Operation& op : program.operations) {  // adds some that reach forward in the step before
    if (pick(random, 0, 5) == 0) op.previous_waits.push_back(pick(random, 0, num_operations - 1));
    if (pick(random, 0, 5) == 0) op.issue_seconds = uniform(random, 0, 1);
    if (op.kind == OpKind::GradD2H) op.accumulate = pick(random, 0, 1) == 0;
  }
  program.cpu_adam_threads = num_operations % 2 == 0 ? 3 : 1;
  return program;
}

Platform random_platform(std::mt19937& random) {
  Platform platform = plain_platform();
  std::array<double, kNumLanes> use{};
  for (double& value : use) value = uniform(random, 0.5, 2);
  SharedResource nvme{"nvme", SharedResource::Scope::Node, uniform(random, 2, 5), {}};
  for (const Lane lane : {Lane::NvmeRead, Lane::NvmeWrite}) {
    nvme.use[lane] = use[static_cast<std::size_t>(lane)];
  }
  for (int i = pick(random, 0, 4); i > 0; --i) {
    SharedResource resource;
    resource.name = "resource " + std::to_string(i);
    resource.scope =
        pick(random, 0, 1) == 0 ? SharedResource::Scope::Node : SharedResource::Scope::Device;
    const double unit = uniform(random, 0.1, 1e11);
    double largest = 0;
    for (const Lane lane : kLanes) {
      if (pick(random, 0, 1) == 0) continue;
      resource.use[lane] = use[static_cast<std::size_t>(lane)] * unit;
      largest = std::max(largest, resource.use[lane]);
    }
    resource.capacity = largest > 0 ? largest * uniform(random, 0.8, 3) : unit;
    platform.shared.push_back(std::move(resource));
  }
  platform.shared.push_back(nvme);
  platform.cpu_adam[3] = linear(1e-9 / (0.5 + use.front()));  // programs have 1 or 3 threads
  return platform;
}

}  // namespace athanor::test
