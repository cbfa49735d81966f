// SPDX-License-Identifier: Apache-2.0
#include "cli/failures/failure_options.hpp"

#include "cli/common/command_line.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"
#include "sim/failures/waste.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace athanor::cli {
namespace {

constexpr const char* kFailures = "--failures";
constexpr const char* kSnapshot = "--snapshot";
constexpr double kMostOfUnit = 1;  ///< most failures of one unit
constexpr int kMostMachines = 1'000'000;

constexpr std::array<std::pair<std::string_view, Seconds>, 5> kPeriods{{{"hour", 3600},
                                                                        {"day", kDay},
                                                                        {"week", 7 * kDay},
                                                                        {"month", 30 * kDay},
                                                                        {"year", 365 * kDay}}};

std::vector<std::string> split(std::string_view text, char mark) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(mark, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

[[noreturn]] void reject_rate(const std::string& rate, const std::string& problem) {
  throw InputError(kFailures, fmt::format("'{}' {}", rate, problem),
                   "Write rates like 1.5%/machine/day, 0.1/4machines/month or 2/job/week, with "
                   "commas between several.");
}

/// Whole number in `text`; nothing for anything else.
std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || rest != end) return std::nullopt;
  return value;
}

double parse_number(const std::string& text, const std::string& rate) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (status != std::errc{} || (!unit.empty() && unit != "%")) {
    reject_rate(rate, "has no number that can be read");
  }
  return unit == "%" ? number / 100 : number;
}

void set_unit(FailureRate& result, const std::string& unit, const std::string& rate) {
  constexpr std::string_view kMachines = "machines";
  if (unit == "machine") return;
  if (unit == "gpu") {
    result.unit = FailureRate::Unit::Gpu;
  } else if (unit == "job") {
    result.unit = FailureRate::Unit::Job;
    result.num_machines = 0;
  } else {
    const auto count = unit.ends_with(kMachines)
                           ? whole(unit.substr(0, unit.size() - kMachines.size()))
                           : std::nullopt;
    if (!count || *count < 2 || *count > kMostMachines) {
      reject_rate(rate, fmt::format("is per '{}', which is none of machine, gpu, job and a number "
                                    "of machines such as 4machines",
                                    unit));
    }
    result.num_machines = static_cast<int>(*count);
  }
}

Seconds period(const std::string& name, const std::string& rate) {
  for (const auto& [known, seconds] : kPeriods) {
    if (known == name) return seconds;
  }
  reject_rate(rate,
              fmt::format("is per '{}', which is none of hour, day, week, month and year", name));
}

FailureRate parse_rate(const std::string& text) {
  const std::vector<std::string> parts = split(text, '/');
  if (parts.size() != 3) reject_rate(text, "is no rate");
  FailureRate rate;
  set_unit(rate, parts[1], text);
  rate.per_second = parse_number(parts[0], text) / period(parts[2], text);
  const bool in_range = rate.per_second >= 0 && rate.per_second <= kMostOfUnit;
  if (!in_range) reject_rate(text, "is out of range (0 to one a second)");
  return rate;
}

std::int64_t parse_count(const std::string& key, const std::string& value) {
  const auto count = whole(value);
  if (count && *count >= 1 && *count <= kMaxOption) return *count;
  throw InputError(fmt::format("{} {}", kSnapshot, key),
                   fmt::format("'{}' is no whole number from 1 to {}", value, kMaxOption),
                   "Write it like every=1,copies=2.");
}

PlacementRule parse_rule(const std::string& value) {
  if (const auto rule = value_of(kPlacementRuleNames, value)) return *rule;
  throw InputError(fmt::format("{} placement", kSnapshot), fmt::format("unknown value '{}'", value),
                   "Use groups, ring or mixed.");
}

void set_key(SnapshotChoice& choice, const std::string& key, const std::string& value) {
  if (key == "every") {
    choice.every = parse_count(key, value);
  } else if (key == "copies") {
    choice.copies = static_cast<int>(parse_count(key, value));
  } else if (key == "jump") {
    choice.jump = static_cast<int>(parse_count(key, value));
  } else if (key == "placement") {
    choice.rule = parse_rule(value);
  } else {
    throw InputError(kSnapshot, fmt::format("unknown key '{}'", key),
                     nearest_hint(key, {"every", "copies", "placement", "jump"},
                                  "Use every, copies, placement and jump."));
  }
}

}  // namespace

std::vector<FailureRate> parse_failure_rates(const std::string& text) {
  std::vector<FailureRate> rates;
  for (const std::string& rate : split(text, ',')) rates.push_back(parse_rate(rate));
  return rates;
}

std::vector<FailureSource> failure_sources(const std::vector<FailureRate>& rates, int num_machines,
                                           int num_gpus) {
  std::vector<FailureSource> sources;
  for (const FailureRate& rate : rates) {
    int units = 1;
    if (rate.unit == FailureRate::Unit::Gpu) units = num_gpus;
    if (rate.unit == FailureRate::Unit::Machine) {
      units = (num_machines + rate.num_machines - 1) / rate.num_machines;
    }
    sources.push_back({.per_second = units * rate.per_second,
                       .num_machines = rate.num_machines,
                       .is_domain = rate.num_machines > 1});
  }
  return sources;
}

SnapshotChoice parse_snapshot(const std::string& text) {
  SnapshotChoice choice;
  for (const std::string& part : split(text, ',')) {
    const std::size_t mark = part.find('=');
    if (mark == std::string::npos) {
      throw InputError(kSnapshot, fmt::format("'{}' is no KEY=VALUE", part),
                       "Write it like every=1,copies=2.");
    }
    set_key(choice, part.substr(0, mark), part.substr(mark + 1));
  }
  return choice;
}

}  // namespace athanor::cli
