// SPDX-License-Identifier: Apache-2.0
// One calibration is a look at a machine for a few seconds. Looks at machines of one kind say more
// together.
#pragma once

#include "sim/model/platform.hpp"

#include <string>
#include <vector>

namespace athanor {

/// A platform that was measured before, and its file, for messages.
struct EarlierLook {
  std::string file;
  Platform platform;
};

/// Throws InputError unless both were measured, on machines of one kind and in one way: backend,
/// device, number of devices, memory, cores and processor of the host, and sizes of CPU Adam. Lists
/// every difference. Memory may differ by a hundredth, since systems keep some of it. A processor
/// that one of them does not record is not compared.
void require_alike(const Platform& platform, const EarlierLook& earlier);

/// Returns the platform as its own look measured it.
[[nodiscard]] Platform own_look(Platform platform);

/// Returns `platform` with CPU Adam's rate pooled over its own look and all looks that `earlier`
/// holds: earlier platforms may be pooled themselves. A look that is there twice counts once, by
/// its day and its seconds.
///
/// A look's value is the mean logarithm, over numbers of threads, of its seconds over those of the
/// own look, at the largest size: that is what leaves the caches, as steps do. Values have random
/// effects (random_effects.hpp). A look is a moment as a run is, and drift_of() is what lies
/// between the two: each has half of its variance. Repetitions scatter besides. The pooled rate is
/// the machine's own by all looks. The variance of its spread in runs is the posterior's and a
/// run's half of the drift's, which together are the drift's for one look.
///
/// Throws InputError where a look is not alike, or there is no other than the platform's own.
[[nodiscard]] Platform pool_looks(const Platform& platform,
                                  const std::vector<EarlierLook>& earlier);

/// Returns a line about each pooled rate, for people; none where nothing is pooled.
[[nodiscard]] std::vector<std::string> pooled_lines(const Platform& platform);

}  // namespace athanor
