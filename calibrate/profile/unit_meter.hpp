// SPDX-License-Identifier: Apache-2.0
// Times a unit's phases on a device and counts its memory: by the host's clock and arena, or by
// CUDA events and LibTorch's caching allocator.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "executor/backend/device_arena.hpp"
#include "executor/recording/work_recorder.hpp"
#include "sim/model/profile.hpp"

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>

namespace athanor {

/// Measurements of one phase.
struct PhaseSamples {
  Samples device;  ///< time on the device
  Samples issue;   ///< host time to launch it; empty if the host itself runs it
  Bytes peak = 0;  ///< highest device memory above that at the start, in the last repetition
};

class UnitMeter {
 public:
  virtual ~UnitMeter() = default;
  [[nodiscard]] virtual torch::Device device() const = 0;
  /// Whether the device has no kernels but deterministic ones.
  [[nodiscard]] virtual bool is_deterministic() const { return device().is_cpu(); }
  /// Makes a recorder of the device's stream; null where nothing can be recorded.
  [[nodiscard]] virtual std::unique_ptr<WorkRecorder> make_recorder() { return nullptr; }
  /// Runs `body` with the device's allocator and stream, untimed.
  virtual void run(const std::function<void()>& body) = 0;
  /// Runs `body` as a timed phase. The time may reach `phase` later; `phase` outlives finish().
  virtual void time(PhaseSamples& phase, const std::function<void()>& body) = 0;
  /// Waits until all but the last few phases have their times.
  virtual void collect() = 0;
  /// Waits for everything.
  virtual void finish() = 0;
  /// Returns the device memory that tensors hold, as the executor's own limit counts it.
  [[nodiscard]] virtual Bytes live() const = 0;
  /// Returns the energy that the device has taken, by its own counter; nothing if it has none.
  [[nodiscard]] virtual std::optional<double> joules() const { return std::nullopt; }
  /// Returns the seconds of repetitions before the first sample, in which clocks and power settle.
  [[nodiscard]] virtual Seconds warm_up() const = 0;
  /// Returns further seconds of repetitions for a throttled device, whose speed then swings around
  /// a mean. 0 for a device without a power limit, where other work can only make a repetition
  /// longer.
  [[nodiscard]] virtual Seconds settling() const { return 0; }
  /// Returns the typical cost of a phase: the mean of a throttled device's times, else the median.
  [[nodiscard]] PhaseCost cost_of(const PhaseSamples& phase) const;
};

/// Meter of the CPU backend. Its arena counts bytes as requested.
class HostMeter final : public UnitMeter {
 public:
  [[nodiscard]] torch::Device device() const override { return torch::kCPU; }
  void run(const std::function<void()>& body) override;
  void time(PhaseSamples& phase, const std::function<void()>& body) override;
  void collect() override {}
  void finish() override {}
  [[nodiscard]] Bytes live() const override { return arena_.live(); }
  [[nodiscard]] Seconds warm_up() const override { return 0; }

 private:
  DeviceArena arena_;
};

}  // namespace athanor
