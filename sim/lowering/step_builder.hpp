// SPDX-License-Identifier: Apache-2.0
// The body of lower(): emits the operations of one step in a topological order.
#pragma once

#include "sim/lowering/access_order.hpp"
#include "sim/lowering/gradient_pool.hpp"
#include "sim/lowering/slot_cache.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

enum class StepKind { Training, Evaluation };

/// Used once. The order of emission is the order within each lane: a unit's fetch comes before the
/// reduces of the units computed while it is prefetched, so that it is never queued behind them.
class StepBuilder {
 public:
  StepBuilder(const Profile& profile, const Plan& plan, Program program, StepKind kind);
  [[nodiscard]] Program build();

 private:
  /// Operations of one chunk that others wait for.
  struct ChunkState {
    std::int32_t gradient_ready = -1;  ///< the last write of the gradient shard in this step
    std::int32_t sum_fetched = -1;     ///< the sum of earlier groups is in the accumulator
    std::int32_t updated = -1;         ///< the new parameters are at their home
    std::int32_t adam = -1;
    std::int32_t copied = -1;  ///< its state on the device is copied to the host
  };
  struct UnitState {
    std::vector<ChunkState> chunks;
    std::vector<std::int32_t> fetched_by;  ///< last operation per lane that fills its slot
    bool fetched_this_step = false;
    bool used_this_step = false;  ///< replicated units: some operation waits for the last update
  };
  /// The operations that first fill a slot in this step: they wait for the step before.
  struct FirstFill {
    std::int32_t pool = 0, slot = 0;
    std::vector<std::int32_t> operations;
  };
  /// Equal buffers through which chunks pass in turn.
  struct Ring {
    explicit Ring(int buffers) : emptied_by(static_cast<std::size_t>(buffers), -1) {}
    [[nodiscard]] std::size_t next() const noexcept { return filled_by.size() % emptied_by.size(); }

    std::vector<std::int32_t>
        emptied_by;  ///< by buffer, the last operation that read it; -1 = none yet
    std::vector<std::int32_t> filled_by;  ///< operations that filled buffers, in order
  };
  /// Operations that wait for a chunk's update in the step before.
  struct UpdateWait {
    std::int32_t operation = 0, unit = 0, chunk = 0;
    bool adam_only = false;  ///< the gradient shard was read, rather than the parameters written
  };

  /// Copies of state on the device in host memory, in their order. They fall into the accesses up
  /// to `end`.
  struct StateCopies {
    struct Copy {
      std::int32_t unit = 0, chunk = 0;
      Bytes bytes = 0;
    };
    std::vector<Copy> waiting;
    std::size_t next = 0;           ///< first in `waiting` that is not emitted
    std::size_t sent = 0;           ///< first that is not sent to the peer
    bool before_gradients = false;  ///< whether the mark precedes the step's last gradients
    std::size_t end = 0;
    std::int64_t time = 0, time_passed = 0;  ///< time of accesses, in forwards of a unit
    Bytes bytes = 0, bytes_emitted = 0;
    std::int32_t first = -1, last = -1;  ///< operations
    std::int32_t first_reduce = -1;      ///< the first that waits for the mark
  };

  void reserve_operations();
  /// Returns an operation on one chunk that is not emitted yet.
  [[nodiscard]] static Operation chunk_operation(OpKind kind, Lane lane, std::int32_t unit,
                                                 std::int32_t chunk);
  std::int32_t emit(Operation operation);
  /// Emits `operation`, which fills the next buffer of `ring` once that is empty.
  std::int32_t emit_fill(Ring& ring, Operation operation);
  [[nodiscard]] Operation& at(std::int32_t operation);
  [[nodiscard]] const UnitPlan& unit_plan(std::int32_t unit) const;
  [[nodiscard]] UnitState& state(std::int32_t unit);
  [[nodiscard]] const std::vector<Chunk>& chunks(std::int32_t unit) const;
  [[nodiscard]] const Chunk& chunk_at(std::int32_t unit, std::int32_t chunk) const;
  [[nodiscard]] std::int32_t chunk_count(std::int32_t unit) const;
  [[nodiscard]] std::int32_t num_units() const;
  /// Elements of the chunk that one rank holds.
  [[nodiscard]] std::int64_t elements_held(std::int32_t unit, std::int32_t chunk) const;
  [[nodiscard]] ChunkState& state_of(std::int32_t unit, std::int32_t chunk);
  [[nodiscard]] const UnitCost& cost(std::int32_t unit) const;
  [[nodiscard]] bool keeps(std::int32_t unit) const;
  /// Whether the unit's output leaves the device between forward and backward.
  [[nodiscard]] bool offloads(std::int32_t unit) const;

  void begin_visit(const Access& first);

  // Fetching (step_builder_fetch.cpp)
  void fetch_ahead(std::int32_t current);
  [[nodiscard]] bool try_fetch(std::int32_t visit, std::int32_t current);
  [[nodiscard]] std::vector<std::int32_t> pinned_units(std::int32_t visit,
                                                       std::int32_t current) const;
  void fetch_unit(std::int32_t unit, std::int32_t visit, const SlotCache::Placement& placement);
  /// Units that have to be in slots during a visit.
  [[nodiscard]] const std::vector<std::int32_t>& used_in(std::int32_t visit) const;
  std::int32_t emit_param_read(std::int32_t unit, std::int32_t chunk);
  [[nodiscard]] std::int32_t emit_fetch(std::int32_t unit, std::int32_t chunk, std::int32_t slot);
  [[nodiscard]] std::int32_t emit_gather(std::int32_t unit, std::int32_t chunk, std::int32_t slot);
  void wait_for_update(std::int32_t operation, std::int32_t unit, std::int32_t chunk);

  // Computing (step_builder_compute.cpp)
  void compute(std::size_t position);
  void emit_forward(const Access& access);
  /// Frees what only backward would still need.
  void forget_input(Operation& forward, const Access& access);
  void emit_recompute(const Access& access);
  void emit_backward(const Access& access);
  /// First and last operation of a phase.
  struct Phase {
    std::int32_t first = -1, last = -1;
  };
  /// Emits `op`, a whole phase, or its stages with the exchanges of the unit's pattern in between.
  /// `consumed` are buffers that it frees at its start; where there are stages, what the unit still
  /// needs of them is part of what it holds between stages.
  Phase emit_phase(Operation op, const Access& access, std::vector<std::int32_t> consumed);
  Phase emit_stages(const Operation& op, const Access& access, const StagedPhase& costs,
                    std::vector<std::int32_t> consumed);
  /// Emits the exchange behind a stage, the index-th of its phase.
  void emit_exchange(std::int32_t after, std::int32_t index);
  /// Returns the buffer that stands for what a unit holds after a stage.
  std::int32_t between_stages(OpKind kind, const Access& access, std::int32_t stage, Bytes bytes);
  /// Device memory that a unit holds outside its phases.
  struct Held {
    Bytes output = 0, saved = 0, grad_input = 0;
  };
  [[nodiscard]] Held held_by(std::int32_t unit) const;
  [[nodiscard]] bool has_stages(std::int32_t unit) const;
  /// Makes an operation with the cost of `measured`, and counts the memory of its graph.
  [[nodiscard]] Operation compute_operation(OpKind kind, const Access& access,
                                            const PhaseCost& measured);
  /// Returns the same member's access to the unit before, or after, in the same direction.
  [[nodiscard]] static Access input_of(Access access);
  [[nodiscard]] static Access output_of(Access access);
  /// Whether the access reads an output that leaves the device between forward and backward.
  [[nodiscard]] bool reads_offloaded(const Access& access) const;
  void emit_output_copy(OpKind kind, const Access& output, std::int32_t after);
  void store_output(const Access& output);
  void drop_output(std::int32_t operation, const Access& output);
  void fetch_output(const Access& output);
  void wait_for_parameters(std::int32_t operation, std::int32_t unit);
  void take_gradient_buffers(std::int32_t operation, const Access& access);
  void take_gradient_buffer(std::int32_t operation, GradientPool::Holder holder);
  [[nodiscard]] GradientPool& gradients_of(std::int32_t unit);
  /// Index into vectors by unit and member.
  [[nodiscard]] std::size_t member_index(const Access& access) const;
  [[nodiscard]] std::int32_t batch_buffer(const Access& access);
  [[nodiscard]] std::int32_t buffer(std::vector<std::int32_t>& of, const Access& access,
                                    const char* name, Bytes bytes);
  std::int32_t add_buffer(std::string name, std::int32_t member, Bytes bytes);

  // Reducing and updating (step_builder_update.cpp)
  [[nodiscard]] bool clips() const;
  void drain_gradients(const Access& access, std::int32_t backward);
  [[nodiscard]] std::int32_t emit_reduce(std::int32_t unit, std::int32_t chunk,
                                         std::int32_t micro_batch, std::int32_t gradient_buffer,
                                         std::int32_t backward);
  /// Takes an accumulator for the gradients that the visit will make, with the sum of earlier
  /// groups.
  void take_accumulator(const Access& access);
  void fetch_sum(std::int32_t unit, std::int32_t chunk, std::int32_t accumulator);
  [[nodiscard]] std::int32_t emit_grad_add(const Access& access, std::int32_t chunk,
                                           std::int32_t gradient_buffer, std::int32_t source);
  [[nodiscard]] std::int32_t emit_grad_d2h(std::int32_t unit, std::int32_t chunk,
                                           std::int32_t micro_batch, std::int32_t gradient_buffer,
                                           std::int32_t source);
  [[nodiscard]] GradientPool& accumulators_of(std::int32_t unit);
  [[nodiscard]] std::int32_t emit_grad_write(std::int32_t grad_d2h);
  void finish_step();
  void emit_losses();
  void emit_norm();
  void emit_fence();
  void emit_mark();
  void emit_square_sums();
  std::int32_t emit_square_sum(std::int32_t unit, std::int32_t chunk, std::int32_t after);
  [[nodiscard]] Operation update_operation(OpKind kind, std::int32_t unit,
                                           std::int32_t chunk) const;
  void emit_adam(std::int32_t unit, std::int32_t chunk);
  void emit_adam_rollback(std::int32_t unit, std::int32_t chunk);
  [[nodiscard]] Ring& state_buffers(const Operation& adam);
  [[nodiscard]] Operation state_copy(OpKind kind, const Operation& adam) const;
  [[nodiscard]] std::int32_t emit_state_read(Operation& adam, std::int32_t gradient_ready);
  [[nodiscard]] std::int32_t emit_state_write(std::int32_t adam);
  void emit_updates(Lane lane, bool streamed);
  void emit_publish();
  void publish_chunk(std::int32_t unit, std::int32_t chunk);

  // Copying to the peer (step_builder_copies.cpp)
  [[nodiscard]] bool sends_to_peer() const;
  /// Emits what is sent before the step's first operation.
  void begin_peer_copies();
  /// Emits what is sent after the first forward of `unit`.
  void continue_peer_copies(std::int32_t unit);
  void emit_peer_copies(std::int32_t unit);
  void emit_peer_copy(std::int32_t unit, std::int32_t chunk);
  /// Emits `copy` and the store of what it brings. Returns the copy.
  std::int32_t emit_peer_copy_and_store(Operation copy);
  void emit_peer_mark();

  // Copying state on the device (step_builder_state_copies.cpp)
  void plan_state_copies();
  [[nodiscard]] bool copies_state() const;
  /// Emits what is copied during the access at `position`.
  void continue_state_copies(std::size_t position);
  void emit_next_state_copy();
  void emit_state_copy(std::int32_t unit, std::int32_t chunk, Bytes bytes);
  /// Sends the peer what is copied and not sent yet.
  void send_state_copies();
  void emit_mark_of_start();
  [[nodiscard]] bool marks_before_losses() const;
  [[nodiscard]] std::int32_t all_ranks_marked() const;

  /// Returns the last update on each lane, -1 = none.
  [[nodiscard]] std::array<std::int32_t, kNumLanes> last_updates();
  void resolve_previous_waits();

  const Profile& profile_;
  const Plan& plan_;
  const StepKind kind_;
  Program program_;
  std::vector<Access> order_;
  std::vector<std::vector<std::int32_t>> cached_;  ///< per unit, the units that have to be in slots
  std::vector<std::int32_t> visit_units_;          ///< the unit of each visit
  SlotCache cache_;
  std::vector<GradientPool> gradients_, accumulators_;  ///< per unit class
  std::vector<UnitState> units_;
  std::vector<std::int32_t> visit_operations_;  ///< last compute operation of each visit
  std::int32_t next_fetch_ = 0;                 ///< first visit that is not wholly fetched
  std::vector<FirstFill> first_fills_;
  std::vector<UpdateWait> update_waits_;
  /// Buffers by unit and member, -1 = none.
  std::vector<std::int32_t> saved_, outputs_, grad_inputs_;
  std::vector<std::int32_t> output_copies_;  ///< the output's last copy, by unit and member
  std::vector<std::int32_t> batches_;        ///< buffers by member, -1 = none
  /// Buffers of between_stages(), by name and member.
  std::map<std::pair<std::string, std::int32_t>, std::int32_t> between_stages_;
  Ring state_buffers_, stream_buffers_, parameter_buffers_, staged_gradients_, receive_buffers_;
  std::int32_t last_computed_ = -1;  ///< forward or backward of the access before
  std::int32_t last_forward_ = -1, norm_ = -1, loss_ = -1, fence_ = -1, mark_ = -1;
  std::int32_t peer_mark_ = -1, first_peer_copy_ = -1, last_peer_store_ = -1;
  Bytes received_bytes_ = 0;  ///< size of the ward's chunks whose copies are emitted
  std::int32_t first_reduce_ = -1;
  StateCopies state_copies_;
  std::array<std::int32_t, kNumLanes> square_sums_;  ///< the last one on each lane, -1 = none
};

}  // namespace athanor
