// SPDX-License-Identifier: Apache-2.0
#include "executor/watch/link_watch.hpp"

#include <fmt/format.h>

namespace athanor {

std::optional<std::string> LinkWatch::look(const std::string& host, Seconds round_trip,
                                           Seconds now) {
  Link& link = links_.try_emplace(host, Link{.fast_at = now}).first->second;
  if (round_trip < kSlowRoundTrip) link.fast_at = now;
  if (link.said || now - link.fast_at < kSlowFor) return std::nullopt;
  link.said = true;
  return fmt::format("the link to {} is slow: a message takes {} there and back", host,
                     format_seconds(round_trip));
}

}  // namespace athanor
