// SPDX-License-Identifier: Apache-2.0
// Shows the best plans of several platforms side by side.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

/// Outcome of one platform.
enum class PlatformOutcome {
  Planned,
  DoesNotFit,  ///< no plan fits the memory
  CannotRun,   ///< the request is impossible there: too few GPUs, or a missing curve
  Failed,
};

struct PlatformRow {
  std::string platform;  ///< name of the platform
  std::string path;
  int gpus = 0;
  int nodes = 1;
  PlatformOutcome outcome = PlatformOutcome::Failed;
  std::string reason;             ///< why there is no plan
  nlohmann::ordered_json report;  ///< report of tune on one platform, with "plan_summary"
  std::optional<double> price;    ///< price of a node per hour, in the user's currency
  /// Tokens per second by those of the platform's fewest GPUs with a plan, and that by the ratio of
  /// GPUs. Above 1, scaling is super-linear.
  std::optional<double> speed_up, efficiency;
  [[nodiscard]] std::optional<double> price_per_million_tokens() const;
};

/// Sets the prices of rows from "NAME=PER_HOUR", where NAME is the name of a platform or of its
/// file without .json. Throws InputError for a text that is no price, or that names no row
/// or several.
void set_prices(const std::vector<std::string>& prices, std::vector<PlatformRow>& rows);

/// Sets speed-up and efficiency of rows with a plan, where a platform has several numbers of GPUs.
void set_scaling(std::vector<PlatformRow>& rows);

/// Sorts rows by price per token, then by tokens per second, then by path. Rows without a plan come
/// last. Where a platform has several numbers of GPUs, rows stay by platform and number instead.
void sort_rows(std::vector<PlatformRow>& rows);

/// Returns one object of the array "platforms".
[[nodiscard]] nlohmann::ordered_json row_json(const PlatformRow& row);

[[nodiscard]] std::string table_text(const std::vector<PlatformRow>& rows);

}  // namespace athanor::cli
