// SPDX-License-Identifier: Apache-2.0
// From lanes that slowed each other down to shared resources that give the slowdowns back.
#pragma once

#include "sim/model/platform.hpp"

#include <map>
#include <string>
#include <vector>

namespace athanor {

/// Lanes that ran at once on each of `ranks` equal ranks, and how many times longer each took than
/// one alone.
struct Load {
  int ranks = 1;
  std::map<Lane, double> slowdown;
};

/// Slowdowns that `resources` give under max-min sharing with equal weights, as the engine shares.
/// The lanes are those of `load`.
[[nodiscard]] std::map<Lane, double> shared_slowdowns(const std::vector<SharedResource>& resources,
                                                      const Load& load);

/// Resources for `loads`. A resource is added where those before it do not slow a load down as
/// measured, from the smallest load to the largest. What a lane uses is relative: two lanes that
/// slow each other down end up at equal shares, so their uses are as their slowdowns; the pairs
/// that disturb each other most decide, since a lane has one use. `copy_rate`: what h2d uses
/// (bytes/s), which gives the figures their unit.
[[nodiscard]] std::vector<SharedResource> fit_loads(const std::vector<Load>& loads,
                                                    double copy_rate);

/// "h2d + cpu-adam on 4 ranks": for names and messages.
[[nodiscard]] std::string load_name(const Load& load);

}  // namespace athanor
