// SPDX-License-Identifier: Apache-2.0
// Settings completed by the command line and by the model: nothing is "auto" afterwards.
#pragma once

#include "sim/model/profile.hpp"
#include "sim/settings/peer_settings.hpp"

#include <cstdint>
#include <optional>

namespace athanor {

/// Options that settings may leave open.
struct SettingsOptions {
  int num_gpus = 0;                           ///< --gpus; 0: not given
  std::int64_t global_batch = 0;              ///< --global-batch; 0: not given
  std::int64_t micro_batch = 0;               ///< --micro-batch; 0: not given
  std::optional<double> clip = std::nullopt;  ///< --clip
  bool recompute = false;                     ///< --recompute
};

/// Fills in GPUs, batch, clipping and recompute, and notes which option gave which key. The batch
/// is that of all GPUs: the product of micro-batch, accumulation and GPUs. Throws InputError where
/// an option is missing, says something else than the file, or the product does not come out.
void settle_batch(PeerSettings& settings, const SettingsOptions& options);

/// Fills in what follows from the model. Throws InputError where the profile was measured in
/// another type, for other lengths, or without the micro-batch.
void settle_model(PeerSettings& settings, const Profile& profile);

}  // namespace athanor
