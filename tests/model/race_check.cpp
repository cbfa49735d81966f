// SPDX-License-Identifier: Apache-2.0
#include "tests/model/race_check.hpp"

#include "sim/model/chunk_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace athanor::test {
namespace {

constexpr int kSteps = 4;  // copies of state have two places, in turn
using Clock = std::array<std::int64_t, kNumLanes>;

enum class MemoryKind {
  Slot,
  GradientBuffer,
  Accumulator,
  GradientShard,
  DeviceShard,
  HostShard,
  Whole,
  Norm,
  DeviceOutput,
  HostOutput,
  State,
  StateBuffer,
  StreamBuffer,
  ParameterBuffer,
  StagedGradient,
  GradientInFile,
  WardShard,
  ReceiveBuffer,
  StateCopy,  // copies of even steps and of odd ones
  Rows        // those of tokens that travel
};
/// Location in memory: place, pool or unit, slot, buffer or member, chunk.
using Location = std::tuple<MemoryKind, int, int, int>;

struct Use {
  Location location;
  bool writes = false;
};

struct Touch {
  std::int64_t index = 0;  ///< position in its lane over all steps
  Lane lane = Lane::Compute;
  std::string name;
};

struct History {
  bool written = false;
  Touch writer;
  std::vector<Touch> readers;
};

class RaceCheck {
 public:
  RaceCheck(const Program& program, const Architecture& architecture, const Plan& plan)
      : program_(program),
        architecture_(architecture),
        plan_(plan),
        outputs_(output_owners(program)) {}

  std::vector<std::string> run() {
    for (int step = 0; step < kSteps; ++step) {
      content_.clear();
      step_ = step;
      clocks_.emplace_back(program_.operations.size());
      for (std::size_t i = 0; i < program_.operations.size(); ++i) visit(step, i);
    }
    return found_;
  }

 private:
  void visit(int step, std::size_t i) {
    const Operation& op = program_.operations[i];
    const auto lane = static_cast<std::size_t>(op.lane);
    Clock clock = lanes_[lane];
    const auto join = [&](const Clock& other) {
      for (std::size_t l = 0; l < clock.size(); ++l) clock[l] = std::max(clock[l], other[l]);
    };
    for (const auto wait : op.waits) {
      if (wait < 0 || wait >= static_cast<std::int32_t>(i))
        report(fmt::format("{} waits for a later operation", name(i)));
      join(clocks_[static_cast<std::size_t>(step)][static_cast<std::size_t>(wait)]);
    }
    for (const auto wait : op.previous_waits) {
      if (step > 0)
        join(clocks_[static_cast<std::size_t>(step) - 1][static_cast<std::size_t>(wait)]);
    }
    const Touch touch{clock[lane], op.lane, fmt::format("{} of step {}", name(i), step)};
    for (const Use& use : uses(op)) check(use, touch, clock);
    clock[lane] += 1;
    lanes_[lane] = clocks_[static_cast<std::size_t>(step)][i] = clock;
  }

  void check(const Use& use, const Touch& touch, const Clock& clock) {
    History& history = histories_[use.location];
    const auto ordered = [&](const Touch& earlier) {
      if (clock[static_cast<std::size_t>(earlier.lane)] > earlier.index) return;
      if (earlier.name == touch.name) return;  // allocates and frees what nobody else sees
      report(fmt::format("{} and {} are not ordered (place {})", earlier.name, touch.name,
                         static_cast<int>(std::get<0>(use.location))));
    };
    if (history.written) ordered(history.writer);
    if (!use.writes) {
      history.readers.push_back(touch);
      return;
    }
    for (const Touch& reader : history.readers) ordered(reader);
    history = {true, touch, {}};
  }

  std::vector<Use> uses(const Operation& op) {
    std::vector<Use> list;
    const int pool = op.unit < 0 ? -1 : program_.pool_of[static_cast<std::size_t>(op.unit)];
    switch (op.kind) {
      case OpKind::ParamRead:
      case OpKind::Fetch:
      case OpKind::Gather:
      case OpKind::OutputD2H:
      case OpKind::OutputH2D:
      case OpKind::ParamH2D:
        parameter_uses(op, pool, list);
        break;
      case OpKind::Reduce:
      case OpKind::GradAdd:
      case OpKind::GradH2D:
      case OpKind::GradD2H:
      case OpKind::GradWrite:
      case OpKind::SquareSum:
      case OpKind::Norm:
        gradient_uses(op, pool, list);
        break;
      case OpKind::Adam:
      case OpKind::AdamRollback:
      case OpKind::StateRead:
      case OpKind::StateWrite:
        update_uses(op, list);
        break;
      case OpKind::Forward:
      case OpKind::Recompute:
      case OpKind::Backward:
        compute_uses(op, list);
        output_uses(op, list);
        if (op.stages > 1) list.push_back({{MemoryKind::Rows, op.unit, op.member, 0}, true});
        break;
      case OpKind::Dispatch:
      case OpKind::Combine:
      case OpKind::ActivationGather:
      case OpKind::ActivationReduce:
        list.push_back({{MemoryKind::Rows, op.unit, op.member, 0}, true});
        break;
      case OpKind::PeerCopy:
        list.push_back({version_of(op), false});
        list.push_back({received_in(op), true});
        break;
      case OpKind::PeerStore:
        list.push_back({received_in(op), false});
        list.push_back({{MemoryKind::WardShard, op.unit, 0, op.chunk}, true});
        break;
      case OpKind::PeerMark:
        for (const Operation& copy : program_.operations) {
          if (copy.kind != OpKind::PeerCopy) continue;
          list.push_back({{MemoryKind::WardShard, copy.unit, 0, copy.chunk}, false});
        }
        break;
      case OpKind::StateD2H:
        list.push_back({{adam_target(op), op.unit, 0, op.chunk}, false});
        list.push_back({copy_of(op), true});
        break;
      case OpKind::Mark:
        for (const Operation& copy : program_.operations) {
          if (copy.kind == OpKind::StateD2H) list.push_back({copy_of(copy), false});
        }
        break;
      case OpKind::Fence:
      case OpKind::Loss:
        break;
    }
    return list;
  }

  /// Returns a function that adds one use to `list`.
  static auto adder(std::vector<Use>& list) {
    return [&list](MemoryKind place, int owner, int index, int chunk, bool writes) {
      list.push_back({{place, owner, index, chunk}, writes});
    };
  }

  /// Adds the uses of an operation that moves parameters or outputs.
  void parameter_uses(const Operation& op, int pool, std::vector<Use>& list) {
    const auto add = adder(list);
    switch (op.kind) {
      case OpKind::ParamRead:
        add(MemoryKind::HostShard, op.unit, 0, op.chunk, false);  // shard in the file
        add(MemoryKind::ParameterBuffer, -1, op.staging_buffer, 0, true);
        break;
      case OpKind::Fetch:
        if (op.staging_buffer >= 0) {
          add(MemoryKind::ParameterBuffer, -1, op.staging_buffer, 0, false);
        } else {
          add(MemoryKind::HostShard, op.unit, 0, op.chunk, false);
        }
        fill_slot(op, pool, list);
        break;
      case OpKind::Gather:
        if (op.slot < 0) {
          add(MemoryKind::Whole, op.unit, 0, op.chunk, true);
        } else {
          if (chunk_of(op).parameters == Home::Gpu)
            add(MemoryKind::DeviceShard, op.unit, 0, op.chunk, false);
          fill_slot(op, pool, list);
        }
        break;
      case OpKind::OutputD2H:
        add(MemoryKind::DeviceOutput, op.unit, op.member, 0, false);
        add(MemoryKind::HostOutput, op.unit, op.member, 0, true);
        break;
      case OpKind::OutputH2D:
        add(MemoryKind::HostOutput, op.unit, op.member, 0, false);
        add(MemoryKind::DeviceOutput, op.unit, op.member, 0, true);
        break;
      case OpKind::ParamH2D:
        add(MemoryKind::HostShard, op.unit, 0, op.chunk, false);
        add(device_kind(op.unit), op.unit, 0, op.chunk, true);
        break;
      default:
        break;
    }
  }

  /// Adds the uses of an operation between a gradient and the norm.
  void gradient_uses(const Operation& op, int pool, std::vector<Use>& list) const {
    const auto add = adder(list);
    switch (op.kind) {
      case OpKind::Reduce:
        add(MemoryKind::GradientBuffer, pool, op.gradient_buffer, op.chunk, true);
        if (chunk_of(op).optimizer == Home::Gpu)
          add(MemoryKind::GradientShard, op.unit, 0, op.chunk, true);
        break;
      case OpKind::GradAdd:
        add(MemoryKind::GradientBuffer, pool, op.gradient_buffer, op.chunk, false);
        add(MemoryKind::Accumulator, pool, op.accumulator, op.chunk, true);
        break;
      case OpKind::GradH2D:
        add(MemoryKind::GradientShard, op.unit, 0, op.chunk, false);
        add(MemoryKind::Accumulator, pool, op.accumulator, op.chunk, true);
        break;
      case OpKind::GradD2H:
        if (op.accumulator >= 0) {
          add(MemoryKind::Accumulator, pool, op.accumulator, op.chunk, false);
        } else {
          add(MemoryKind::GradientBuffer, pool, op.gradient_buffer, op.chunk, false);
        }
        if (op.staging_buffer >= 0) {
          add(MemoryKind::StagedGradient, -1, op.staging_buffer, 0, true);
        } else {
          add(MemoryKind::GradientShard, op.unit, 0, op.chunk, true);
        }
        break;
      case OpKind::GradWrite:
        add(MemoryKind::StagedGradient, -1, op.staging_buffer, 0, false);
        add(MemoryKind::GradientInFile, op.unit, 0, op.chunk, true);
        break;
      case OpKind::SquareSum:
        if (op.gradient_buffer >= 0) {
          add(MemoryKind::GradientBuffer, pool, op.gradient_buffer, op.chunk, false);
        } else {
          add(MemoryKind::GradientShard, op.unit, 0, op.chunk, false);
        }
        add(MemoryKind::Norm, op.unit, 1, op.chunk, true);
        break;
      case OpKind::Norm:
        for (int u = 0; u < static_cast<int>(program_.layouts.size()); ++u) {
          for (int c = 0;
               c < static_cast<int>(program_.layouts[static_cast<std::size_t>(u)].chunks.size());
               ++c) {
            add(MemoryKind::Norm, u, 1, c, false);
          }
        }
        add(MemoryKind::Norm, -1, 0, 0, true);
        break;
      default:
        break;
    }
  }

  /// Adds the uses of an update, or of a copy of its state.
  void update_uses(const Operation& op, std::vector<Use>& list) const {
    const auto add = adder(list);
    switch (op.kind) {
      case OpKind::Adam:
      case OpKind::AdamRollback:
        if (plan_.clipping != Clipping::None && !op.speculative)
          add(MemoryKind::Norm, -1, 0, 0, false);
        if (op.state_buffer >= 0) add(state_buffer(op), -1, op.state_buffer, 0, true);
        if (chunk_of(op).gpu_adam) break;
        if (op.staging_buffer >= 0) {
          add(MemoryKind::StagedGradient, -1, op.staging_buffer, 0, false);
        } else if (!writes_gradient_to_file(op)) {
          add(MemoryKind::GradientShard, op.unit, 0, op.chunk, false);
        }
        if (chunk_of(op).parameters == Home::Nvme) break;  // parameters in the state buffer
        add(adam_target(op), op.unit, 0, op.chunk, true);
        break;
      case OpKind::StateRead:
        add(MemoryKind::State, op.unit, 0, op.chunk, false);
        if (moves_parameters(op))
          add(MemoryKind::HostShard, op.unit, 0, op.chunk, false);  // shard in fp32
        if (chunk_of(op).gpu_adam) add(MemoryKind::GradientShard, op.unit, 0, op.chunk, false);
        if (writes_gradient_to_file(op))
          add(MemoryKind::GradientInFile, op.unit, 0, op.chunk, false);
        add(state_buffer(op), -1, op.state_buffer, 0, true);
        break;
      case OpKind::StateWrite:
        add(state_buffer(op), -1, op.state_buffer, 0, false);
        add(MemoryKind::State, op.unit, 0, op.chunk, true);
        if (moves_parameters(op)) add(MemoryKind::HostShard, op.unit, 0, op.chunk, true);
        break;
      default:
        break;
    }
  }

  /// Place to which a PeerCopy brings the ward's shard: its own, or a buffer. Buffers do not
  /// overlap (test_snapshot_sends).
  static Location received_in(const Operation& op) {
    if (op.receive_offset < 0) return {MemoryKind::WardShard, op.unit, 0, op.chunk};
    return {MemoryKind::ReceiveBuffer, -1, static_cast<int>(op.receive_offset), 0};
  }

  /// Place of the version in host memory that a PeerCopy sends.
  [[nodiscard]] Location version_of(const Operation& op) const {
    if (has_state_copies(plan_, chunk_of(op))) return copy_of(op);
    return {MemoryKind::HostShard, op.unit, 0, op.chunk};
  }

  [[nodiscard]] Location copy_of(const Operation& op) const {
    return {MemoryKind::StateCopy, op.unit, step_ % 2, op.chunk};
  }

  void fill_slot(const Operation& op, int pool, std::vector<Use>& list) {
    list.push_back({{MemoryKind::Slot, pool, op.slot, op.chunk}, true});
    content_[{pool, op.slot, op.chunk}] = op.unit;
    slot_of_[op.unit] = op.slot;
  }

  void compute_uses(const Operation& op, std::vector<Use>& list) {
    std::vector<int> needed{op.unit};
    for (const Borrow& borrow : architecture_.units[static_cast<std::size_t>(op.unit)].borrows) {
      needed.push_back(borrow.unit);
    }
    for (const int unit : needed) {
      const auto& chunks = program_.layouts[static_cast<std::size_t>(unit)].chunks;
      for (int c = 0; c < static_cast<int>(chunks.size()); ++c) {
        read_parameters(op, unit, c, list);
        if (op.kind == OpKind::Backward) {
          list.push_back(
              {{MemoryKind::GradientBuffer, program_.pool_of[static_cast<std::size_t>(unit)],
                gradient_buffer_of(unit, op.micro_batch), c},
               true});
        }
      }
    }
  }

  /// Adds the unit's input, and outputs whose memory the operation allocates or frees.
  void output_uses(const Operation& op, std::vector<Use>& list) const {
    bool gives_input = false;
    for (const auto* buffers : {&op.allocates, &op.frees}) {
      for (const std::int32_t buffer : *buffers) {
        const UnitOutput& owner = outputs_[static_cast<std::size_t>(buffer)];
        if (owner.unit >= 0) {
          list.push_back({{MemoryKind::DeviceOutput, owner.unit, owner.member, 0}, true});
        }
        gives_input = gives_input || owner == UnitOutput{op.unit - 1, op.member};
      }
    }
    if (op.unit > 0 && !gives_input) {
      list.push_back({{MemoryKind::DeviceOutput, op.unit - 1, op.member, 0}, false});
    }
  }

  void read_parameters(const Operation& op, int unit, int chunk, std::vector<Use>& list) {
    if (device_kind(unit) == MemoryKind::Whole) {
      list.push_back({{MemoryKind::Whole, unit, 0, chunk}, false});
      return;
    }
    const int pool = program_.pool_of[static_cast<std::size_t>(unit)];
    const auto held = content_.find({pool, slot_of_[unit], chunk});
    if (held == content_.end() || held->second != unit) {
      report(fmt::format("{} of unit {} uses unit {} that is in no slot", op_kind_name(op.kind),
                         op.unit, unit));
    }
    list.push_back({{MemoryKind::Slot, pool, slot_of_[unit], chunk}, false});
  }

  int gradient_buffer_of(int unit, int micro_batch) const {
    for (const Operation& op : program_.operations) {
      if (op.kind == OpKind::Backward && op.unit == unit && op.micro_batch == micro_batch)
        return op.gradient_buffer;
    }
    return -1;
  }

  [[nodiscard]] const Chunk& chunk_of(const Operation& op) const {
    return program_.layouts[static_cast<std::size_t>(op.unit)]
        .chunks[static_cast<std::size_t>(op.chunk)];
  }
  [[nodiscard]] MemoryKind device_kind(int unit) const {
    return plan_.units[static_cast<std::size_t>(unit)].sharding == Sharding::Sharded
               ? MemoryKind::DeviceShard
               : MemoryKind::Whole;
  }
  [[nodiscard]] bool writes_gradient_to_file(const Operation& op) const {
    return athanor::writes_gradient_to_file(plan_, chunk_of(op));
  }
  /// Returns whether parameters move with the state, to and from a buffer.
  [[nodiscard]] bool moves_parameters(const Operation& op) const {
    return chunk_of(op).gpu_adam || chunk_of(op).parameters == Home::Nvme;
  }
  [[nodiscard]] MemoryKind adam_target(const Operation& op) const {
    return off_gpu(chunk_of(op).optimizer) ? MemoryKind::HostShard : device_kind(op.unit);
  }
  [[nodiscard]] MemoryKind state_buffer(const Operation& op) const {
    return chunk_of(op).gpu_adam ? MemoryKind::StreamBuffer : MemoryKind::StateBuffer;
  }
  [[nodiscard]] std::string name(std::size_t i) const {
    return program_.name(static_cast<std::int32_t>(i));
  }
  void report(const std::string& text) {
    if (found_.size() < 10) found_.push_back(text);
  }

  const Program& program_;
  const Architecture& architecture_;
  const Plan& plan_;
  std::vector<UnitOutput> outputs_;
  int step_ = 0;
  std::array<Clock, kNumLanes> lanes_{};
  std::vector<std::vector<Clock>> clocks_;
  std::map<Location, History> histories_;
  std::map<std::tuple<int, int, int>, int> content_;
  std::map<int, int> slot_of_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> find_races(const Program& program, const Architecture& architecture,
                                    const Plan& plan) {
  return RaceCheck(program, architecture, plan).run();
}

}  // namespace athanor::test
