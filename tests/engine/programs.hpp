// SPDX-License-Identifier: Apache-2.0
// Small handmade programs and platforms for tests of the engine.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <random>
#include <string>
#include <vector>

namespace athanor::test {

/// Returns a platform with copies and collectives at 1 GB/s, 1 element of CPU Adam per ns and no
/// latency.
[[nodiscard]] Platform plain_platform();

/// Returns a cluster of nodes like `node` with `devices` each, up to 64 ranks: two NICs of 1 GB/s,
/// hops of 1 us. Measurements of more ranks than a node has are removed.
[[nodiscard]] Platform cluster(Platform node, int devices);

/// Adds a resource of which each of `lanes` asks `use`.
void share(Platform& platform, SharedResource::Scope scope, double capacity,
           const std::vector<Lane>& lanes, double use);

/// Builds a program operation by operation; every function returns the operation's index.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(int world_size = 1) { program_.world_size = world_size; }
  std::int32_t compute(Seconds seconds, std::vector<std::int32_t> waits = {});
  /// Adds a phase of a unit that draws `watts` unthrottled.
  std::int32_t kernel(Seconds full_clock, Seconds sustained, double watts,
                      std::vector<std::int32_t> waits = {});
  std::int32_t copy_in(Bytes bytes, std::vector<std::int32_t> waits = {});
  std::int32_t copy_out(Bytes bytes, std::vector<std::int32_t> waits = {});
  /// Adds gradients to sums in host memory.
  std::int32_t add_out(Bytes bytes, std::vector<std::int32_t> waits = {});
  std::int32_t gather(Bytes bytes, std::vector<std::int32_t> waits = {});
  /// Reduces a gradient of bf16 and stores it in fp32 on the device, or adds it there.
  std::int32_t reduce(std::int64_t elements, bool adds, std::vector<std::int32_t> waits = {});
  std::int32_t adam(std::int64_t elements, std::vector<std::int32_t> waits = {});
  std::int32_t read_file(Bytes bytes, std::vector<std::int32_t> waits = {});
  std::int32_t write_file(Bytes bytes, std::vector<std::int32_t> waits = {});
  ProgramBuilder& issue(std::int32_t operation, Seconds seconds);
  ProgramBuilder& after_previous(std::int32_t operation, std::int32_t previous);
  [[nodiscard]] const Program& program() const noexcept { return program_; }

 private:
  std::int32_t add(Operation op, std::vector<std::int32_t> waits);
  std::int32_t transfer(OpKind kind, Lane lane, Bytes bytes, std::vector<std::int32_t> waits);
  Program program_;
};

/// Returns the interval of one operation.
[[nodiscard]] Interval find(const Timeline& timeline, std::int32_t operation, int step = 0,
                            int rank = 0);

/// Returns whether two timelines agree bit for bit.
[[nodiscard]] bool identical(const Timeline& a, const Timeline& b);

[[nodiscard]] Program random_program(std::mt19937& random, int world_size, int num_operations);
/// Returns plain_platform with up to four shared resources that some lanes can saturate, and with a
/// curve for CPU Adam on three threads.
[[nodiscard]] Platform random_platform(std::mt19937& random);

}  // namespace athanor::test
