// SPDX-License-Identifier: Apache-2.0
// athanor.json in an exported folder: which run's weights it holds, so that the run knows its own
// export again when it was killed before it could end.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace athanor {

inline constexpr const char* kExportRecord = "athanor.json";

/// The content of athanor.json.
struct ExportRecord {
  std::string run;                      ///< identity of the run
  std::int64_t step = 0;                ///< steps that were done
  std::string digest;                   ///< digest of all weights, as rounded
  std::map<std::string, Bytes> shards;  ///< size of each weight file
};

[[nodiscard]] std::string to_json(const ExportRecord& record);

/// Returns the record of a folder whose weight files have the sizes that it names; nothing where
/// there is none, or where something is missing or not as it says.
[[nodiscard]] std::optional<ExportRecord> read_export_record(const std::string& folder);

}  // namespace athanor
