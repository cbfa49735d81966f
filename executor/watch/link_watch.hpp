// SPDX-License-Identifier: Apache-2.0
// Finds links between machines on which messages take long. It knows nothing of connections.
#pragma once

#include "sim/base/quantities.hpp"

#include <map>
#include <optional>
#include <string>

namespace athanor {

/// A message that takes this long to another machine and back makes the link slow. Networks between
/// the machines of a job are a hundred times faster; acknowledgements that wait for company are
/// not.
inline constexpr Seconds kSlowRoundTrip = 0.1;
/// How long a link has to be slow before that is said.
inline constexpr Seconds kSlowFor = 5;

class LinkWatch {
 public:
  /// Notes what a message to `host` and back takes at the time `now`. Returns what to say where the
  /// link has been slow for a while, once for each host.
  [[nodiscard]] std::optional<std::string> look(const std::string& host, Seconds round_trip,
                                                Seconds now);

 private:
  struct Link {
    Seconds fast_at = 0;
    bool said = false;
  };
  std::map<std::string, Link> links_;
};

}  // namespace athanor
