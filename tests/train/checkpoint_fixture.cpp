// SPDX-License-Identifier: Apache-2.0
#include "tests/train/checkpoint_fixture.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "executor/checkpoint/checkpoint_writer.hpp"

#include <barrier>
#include <filesystem>
#include <fstream>
#include <thread>

namespace athanor::test {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kSamplesPerStep = 4, kTokens = 16;

float value_of(const std::string& run, std::int64_t step, std::int32_t unit, StatePart part,
               std::int64_t element) {
  const std::string text = run + std::to_string(step) + "," + std::to_string(unit) + "," +
                           std::to_string(static_cast<int>(part)) + "," + std::to_string(element);
  constexpr std::uint64_t kExact = 1 << 20;
  return static_cast<float>(hash_bytes(std::as_bytes(std::span(text))) % kExact);
}

}  // namespace

Architecture handful_of_parameters() {
  Architecture architecture;
  architecture.name = "handful";
  architecture.units.push_back({"first", "first", {{"a", {2, 2}}, {"b", {2}}}, {}});
  architecture.units.push_back({"last", "last", {{"c", {4}}}, {}});
  return architecture;
}

std::vector<StateRange> ranges_of_handful(const std::string& run, std::int64_t step, int rank) {
  const Architecture architecture = handful_of_parameters();
  std::vector<StateRange> ranges;
  for (std::int32_t unit = 0; unit < std::ssize(architecture.units); ++unit) {
    const std::int64_t half =
        architecture.units[static_cast<std::size_t>(unit)].num_elements() / kRanks;
    const std::int64_t offset = rank * half;
    ranges.push_back(
        {unit, {.offset = offset, .run = half}, [=](StatePart part, std::span<float> to) {
           for (std::int64_t i = 0; i < half; ++i) {
             to[static_cast<std::size_t>(i)] = value_of(run, step, unit, part, offset + i);
           }
         }});
  }
  return ranges;
}

CheckpointState state_of_handful(const std::string& run, std::int64_t step) {
  const Architecture architecture = handful_of_parameters();
  return {.run = run,
          .step = step,
          .position = {.samples = step * kSamplesPerStep, .sequence_length = kTokens},
          .world_size = kRanks,
          .model = architecture.name,
          .parameters = hash_parameters(architecture),
          .settings = {{"lr", "0.1"}},
          .files = {}};
}

void write_handful(const std::string& checkpoints, const std::string& run, std::int64_t step,
                   int keep_last) {
  const Architecture architecture = handful_of_parameters();
  const CheckpointState state = state_of_handful(run, step);
  std::vector<std::uint64_t> values(kRanks);
  std::barrier meeting(kRanks);
  const auto write = [&](int rank) {
    write_checkpoint(checkpoints, state, architecture, ranges_of_handful(run, step, rank), rank,
                     keep_last, [&](std::uint64_t value) {
                       values[static_cast<std::size_t>(rank)] = value;
                       meeting.arrive_and_wait();
                       const std::vector<std::uint64_t> all = values;
                       meeting.arrive_and_wait();
                       return all;
                     });
  };
  std::thread other([&] { write(1); });
  write(0);
  other.join();
}

bool reads_as_written(const ChosenCheckpoint& chosen) {
  const Architecture architecture = handful_of_parameters();
  const CheckpointState& state = chosen.state;
  bool right = state.position.samples == state.step * kSamplesPerStep;
  constexpr int kReaders = 3;
  for (int rank = 0; rank < kReaders; ++rank) {
    const Checkpoint open = open_checkpoint(chosen, architecture, rank, kReaders);
    for (std::int32_t unit = 0; unit < std::ssize(architecture.units); ++unit) {
      const auto count = architecture.units[static_cast<std::size_t>(unit)].num_elements();
      for (const StatePart part : kStateParts) {
        std::vector<float> values(static_cast<std::size_t>(count));
        open.reader(unit, part, 0, values);
        for (std::int64_t i = 0; i < count; ++i) {
          right = right && values[static_cast<std::size_t>(i)] ==
                               value_of(state.run, state.step, unit, part, i);
        }
      }
    }
  }
  return right;
}

void flip_byte(const std::string& path, std::int64_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const auto place = file.tellg();
  const int byte = file.get();
  file.seekp(place);
  file.put(static_cast<char>(byte ^ 0x55));
}

}  // namespace athanor::test
