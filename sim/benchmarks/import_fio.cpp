// SPDX-License-Identifier: Apache-2.0
// Results of fio --output-format=json (3.x): the rates at which its jobs read and write files.
#include "sim/benchmarks/formats.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

/// Size at which a curve takes the rate: large enough that no start-up time shows.
constexpr double kLargeFile = 512.0 * (1 << 20);

/// Returns an option of a job, its own or the file's, as text; empty where it is not given.
std::string option_of(JsonReader& json, JsonReader& job, const char* name) {
  for (const auto& options :
       {job.optional_key("job options"), json.optional_key("global options")}) {
    auto given = options;
    const auto value = given ? given->optional_key(name) : std::nullopt;
    if (value) return value->string();
  }
  return "";
}

void check_job(JsonReader& json, JsonReader& job) {
  const auto error = job.optional_key("error");
  if (error && error->integer(-kMaxCount) != 0) {
    error->reject(fmt::format("fio failed with error {}", error->integer(-kMaxCount)),
                  "Find the cause, and measure again.");
  }
  if (option_of(json, job, "direct") != "1") {
    job.reject("the job used the page cache",
               "Run fio with --direct=1: plans keep more on NVMe than memory holds.");
  }
}

/// Adds up the rates of a direction, because jobs of a run work at the same time.
double rate_of(JsonReader& json, const char* direction) {
  double rate = 0;
  for (JsonReader& job : json.key("jobs").items()) {
    JsonReader side = job.key(direction);
    if (side.key("io_bytes").number() <= 0) continue;
    check_job(json, job);
    const JsonReader bandwidth = side.key("bw_bytes");
    check_positive(bandwidth.path(), bandwidth.number());
    rate += bandwidth.number();
  }
  return rate;
}

/// Returns a curve with this rate that keeps the start-up time of `former`.
Curve at_rate(const Curve& former, double rate) {
  const Curve::Point large{kLargeFile, kLargeFile / rate, 0};
  const bool has_start = !former.points.empty() && former.points.front().size < kLargeFile &&
                         former.points.front().seconds < large.seconds;
  return has_start ? Curve{{former.points.front(), large}} : Curve{{large}};
}

}  // namespace

std::vector<std::string> import_fio(JsonReader json, Platform& platform) {
  std::vector<std::string> taken;
  const auto take = [&](const char* direction, const char* key, Curve& curve) {
    const double rate = rate_of(json, direction);
    if (rate <= 0) return;
    curve = at_rate(curve, rate);
    taken.push_back(fmt::format("{} {:.2f} GB/s", key, rate / kGigabyte));
    note_import(platform, fmt::format("{} ({}): {}", json.key("fio version").string(),
                                      json.path().text(), taken.back()));
  };
  take("read", "file_read", platform.file_read);
  take("write", "file_write", platform.file_write);
  if (!taken.empty()) platform.file_system.reset();  // fio does not say on which it ran
  if (taken.empty()) {
    json.key("jobs").reject("no job read or wrote", "Run fio with --rw=read and --rw=write.");
  }
  return taken;
}

}  // namespace athanor
