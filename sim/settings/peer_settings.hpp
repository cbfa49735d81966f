// SPDX-License-Identifier: Apache-2.0
// Settings that a file of another system asks for, each value with the key that set it.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// The place that sets a value: a key of the file, or an option of the command line.
struct Origin {
  std::string key;  ///< "zero_optimization.stage"; "--clip"
  int line = 0;     ///< 0: the file does not hold it
};

/// Returns "zero_optimization.stage (line 5)".
[[nodiscard]] std::string text_of(const Origin& origin);

template <typename T>
struct Setting {
  T value{};
  Origin origin;
  bool is_auto = false;  ///< the file leaves it to the command line or to the model
};

enum class Peer { DeepSpeed, Fsdp, Ddp };

/// State that is divided over the ranks: ZeRO's stages 0 to 3.
enum class Partition { None, Optimizer, Gradients, Parameters };

/// Units that recompute: every nth; 0: none.
struct RecomputeRule {
  int every = 0;
  bool offloads_outputs = false;
};

/// Defaults are DeepSpeed's (0.19) where a comment names no other.
struct PeerSettings {
  PeerSettings(Peer whose, std::string name, std::string path)
      : peer(whose), system(std::move(name)), file(std::move(path)) {}

  Peer peer = Peer::DeepSpeed;
  std::string system;                      ///< "DeepSpeed"
  std::string file;                        ///< path of the file, for messages
  Setting<int> num_gpus;                   ///< 0: not said
  Setting<std::int64_t> global_batch;      ///< sequences a step over all ranks; 0: not said
  Setting<std::int64_t> micro_batch;       ///< sequences a rank and micro-batch; 0: not said
  Setting<std::int64_t> accumulation;      ///< micro-batches a rank and step; 0: not said
  Setting<double> clip;                    ///< global L2 norm; 0: no clipping
  Setting<std::optional<DataType>> dtype;  ///< absent: whatever the profile has
  Setting<std::int64_t> sequence_length;   ///< tokens; 0: not said
  Setting<Partition> partition;
  Setting<Home> optimizer, parameters;
  Setting<double> optimizer_share{1, {}, false};  ///< share of the state that is at `optimizer`
  Setting<bool> pinned{true, {}, false};          ///< host memory that copies need not wait for
  Setting<RecomputeRule> recompute;
  Setting<bool> reshard{true, {}, false};  ///< FSDP: parameters are released after forward
  Setting<std::int64_t> live_elements{1'000'000'000, {}, false};   ///< gathered at once
  Setting<std::int64_t> prefetch_elements{50'000'000, {}, false};  ///< fetched ahead
  Setting<int> nvme_buffers{1, {}, false};       ///< chunks of state in host memory at once
  Setting<int> parameter_buffers{5, {}, false};  ///< chunks of parameters between file and GPU
  /// Lines on what was not modelled, not read, or taken from elsewhere. A line starts with which.
  std::vector<std::string> notes;
};

}  // namespace athanor
