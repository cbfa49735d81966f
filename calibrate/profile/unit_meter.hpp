// SPDX-License-Identifier: Apache-2.0
// Times a unit's phases on a device and counts its memory. A seam: the host's clock and arena, or
// CUDA events and LibTorch's caching allocator.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "executor/backend/device_arena.hpp"

#include <torch/torch.h>

#include <functional>
#include <optional>

namespace athanor {

/// What was measured of one phase.
struct PhaseSamples {
  Samples device;  ///< time on the device
  Samples issue;   ///< host time to launch it; empty where launching is running
  Bytes peak = 0;  ///< highest device memory above the level at the start, of the last repetition
};

class UnitMeter {
 public:
  virtual ~UnitMeter() = default;
  [[nodiscard]] virtual torch::Device device() const = 0;
  /// Runs `body` with the device's allocator and stream, untimed.
  virtual void run(const std::function<void()>& body) = 0;
  /// The same as a timed phase. The time may reach `phase` later; `phase` outlives finish().
  virtual void time(PhaseSamples& phase, const std::function<void()>& body) = 0;
  /// Waits until all but the last few phases have their times.
  virtual void collect() = 0;
  /// Waits for everything.
  virtual void finish() = 0;
  /// Device memory that tensors hold, as the executor's own limit counts it.
  [[nodiscard]] virtual Bytes live() const = 0;
  /// Energy that the device has taken, by its own counter; nothing where there is none.
  [[nodiscard]] virtual std::optional<double> joules() const { return std::nullopt; }
  /// Repetitions before the first sample, in seconds: clocks and power settle.
  [[nodiscard]] virtual Seconds warm_up() const = 0;
  /// More of them where a power limit holds the device back, which then goes around a mean; 0 where
  /// nothing does, and other work only ever makes a repetition longer.
  [[nodiscard]] virtual Seconds settling() const { return 0; }
};

/// The CPU backend: memory from an arena of its own, bytes as requested.
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
