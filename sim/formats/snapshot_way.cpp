// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/snapshot_way.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace athanor {
namespace {

constexpr std::string_view kEvery = "every=";

std::string ways(bool takes_every) {
  return listed(kSnapshotNames) + (takes_every ? ", every=1" : "");
}

void set_key(const std::string& part, const std::string& option, SnapshotWay& way) {
  const auto refuse = [&option](const std::string& problem, const std::string& hint) {
    throw InputError(option, problem, hint);
  };
  const std::size_t mark = part.find('=');
  const std::string key = part.substr(0, mark);
  const std::string value = mark == std::string::npos ? "" : part.substr(mark + 1);
  if (key == "copies") {
    if (value != "1" && value != "2") {
      refuse(fmt::format("'{}' is no number of copies", value), "Give copies=1 or copies=2.");
    }
    way.copies = value == "1" ? 1 : 2;
  } else if (key == "every") {
    const auto end = value.data() + value.size();
    const auto [read_to, error] = std::from_chars(value.data(), end, way.every);
    if (error != std::errc() || read_to != end || way.every < 1 || way.every > kMostSnapshotEvery) {
      refuse(fmt::format("'{}' is no number of steps", value),
             fmt::format("Give every=N with N from 1 to {}.", kMostSnapshotEvery));
    }
  } else if (key == "send") {
    const auto send = value_of(kSnapshotSendNames, value);
    if (!send) {
      refuse(fmt::format("'{}' is no way to send copies", value),
             fmt::format("Give send= one of {}.", listed(kSnapshotSendNames)));
    }
    way.send = *send;
  } else {
    refuse(fmt::format("unknown part '{}'", part),
           "Write it like versions,copies=2,send=pipelined.");
  }
}

}  // namespace

Snapshot SnapshotWay::snapshot() const {
  if (way.empty() && every > 1) return Snapshot::Copy;
  if (way.empty()) return copies > 1 ? Snapshot::Versions : Snapshot::Redo;
  return value_of(kSnapshotNames, way).value_or(Snapshot::None);
}

SnapshotWay parse_snapshot_way(const std::string& text, bool takes_every,
                               const std::string& option) {
  SnapshotWay way;
  std::istringstream parts(text);
  std::getline(parts, way.way, ',');
  if (takes_every && way.way.starts_with(kEvery)) {
    set_key(std::exchange(way.way, ""), option, way);
  } else if (!value_of(kSnapshotNames, way.way)) {
    throw InputError(option, fmt::format("'{}' is no way to take snapshots", way.way),
                     fmt::format("Give one of {}.", ways(takes_every)));
  }
  for (std::string part; std::getline(parts, part, ',');) set_key(part, option, way);
  if (way.copies == 1 && way.send != SnapshotSend::Direct) {
    throw InputError(option, "send= says how copies reach another node, and there is one copy",
                     "Give copies=2, too, or leave send= out.");
  }
  if (way.every > 1 && way.snapshot() != Snapshot::Copy) {
    throw InputError(option, fmt::format("every={} does not go with {}", way.every, way.way),
                     "Give copy,every=N (all state on the GPU), or leave every= out.");
  }
  return way;
}

}  // namespace athanor
