// SPDX-License-Identifier: Apache-2.0
// The value of the option that says how a plan takes snapshots: "versions,copies=2,send=pipelined".
#pragma once

#include "sim/model/plan.hpp"

#include <string>

namespace athanor {

/// How a plan takes snapshots, and how copies of them reach another node.
struct SnapshotWay {
  std::string way;  ///< a name of kSnapshotNames; empty: whichever is fastest
  int every = 1;    ///< steps for each
  int copies = 1;
  SnapshotSend send = SnapshotSend::Direct;

  /// The snapshot that `way` names. Without a name it is Redo, or versions where a peer keeps a
  /// copy: a log can have none. Other ways are to be tried beside it. More steps than one for each
  /// are for Snapshot::Copy alone.
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] bool tries_snapshots() const { return way.empty() && every == 1; }
};

/// Reads the value of `option`. Throws InputError with the values that there are. `takes_every`:
/// it need not name a way ("every=1,copies=2").
[[nodiscard]] SnapshotWay parse_snapshot_way(const std::string& text, bool takes_every,
                                             const std::string& option = "--snapshot");

}  // namespace athanor
