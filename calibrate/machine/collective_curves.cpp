// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/collective_curves.hpp"

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/measure.hpp"
#include "executor/cpu/host_copy.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace athanor {
namespace {

constexpr Bytes kPartAlignment = 128;  // 32 fp32 elements, as chunks are aligned

/// Buffer of one part per rank, and the home of the own part.
class CollectiveBench {
 public:
  CollectiveBench(Collectives& ranks, Bytes bytes)
      : ranks_(ranks),
        part_(round_up((bytes + ranks.world_size() - 1) / ranks.world_size(), kPartAlignment)),
        buffer_(random_floats(this->bytes() / 4, 1)),
        home_(random_floats(this->bytes() / 4, 2)) {}

  [[nodiscard]] Bytes bytes() const noexcept { return part_ * ranks_.world_size(); }

  void all_gather() {
    host_copy(own_part(), home_.data(), part_);
    ranks_.all_gather(buffer_.data(), part_);
  }
  void reduce_scatter() {
    ranks_.reduce_scatter(buffer_.data(), std::ssize(buffer_), DataType::Float32);
    host_copy(home_.data(), own_part(), part_);
  }
  void all_reduce() {
    ranks_.all_reduce(buffer_.data(), std::ssize(buffer_), DataType::Float32);
    host_copy(home_.data(), buffer_.data(), bytes());
  }
  void all_to_all() { ranks_.all_to_all(buffer_.data(), home_.data(), part_); }

 private:
  [[nodiscard]] std::byte* own_part() noexcept {
    return reinterpret_cast<std::byte*>(buffer_.data()) + ranks_.rank() * part_;
  }

  Collectives& ranks_;
  Bytes part_;
  std::vector<float> buffer_, home_;
};

/// Returns the longest time of all ranks. It is equal on every rank, so that all of them stop after
/// the same repetition.
Seconds slowest_rank(Collectives& ranks, Seconds own) {
  std::vector<double> seconds(static_cast<std::size_t>(ranks.world_size()));
  seconds[static_cast<std::size_t>(ranks.rank())] = own;
  ranks.all_gather(seconds.data(), sizeof(double));
  return *std::max_element(seconds.begin(), seconds.end());
}

nlohmann::json json_of(const Curve& curve) {
  nlohmann::json points = nlohmann::json::array();
  for (const Curve::Point& point : curve.points) {
    points.push_back({point.size, point.seconds, point.spread});
  }
  return points;
}

Curve curve_of(const nlohmann::json& points) {
  Curve curve;
  for (const nlohmann::json& point : points) {
    curve.points.push_back({point.at(0), point.at(1), point.at(2)});
  }
  return curve;
}

}  // namespace

Samples measure_on_all_ranks(Collectives& ranks, const StoppingRule& rule,
                             const std::function<void()>& collective) {
  Samples samples;
  collective();
  while (!rule.satisfied_by(samples)) {
    ranks.barrier();
    samples.add(slowest_rank(ranks, time_once(collective)));
  }
  return samples;
}

CollectiveTimes measure_collectives(Collectives& ranks, const std::vector<Bytes>& sizes,
                                    const StoppingRule& rule) {
  CollectiveTimes times;
  for (const Bytes size : sizes) {
    CollectiveBench bench(ranks, size);
    const auto add = [&](Curve& curve, const std::function<void()>& collective) {
      const Samples samples = measure_on_all_ranks(ranks, rule, collective);
      curve.points.push_back(
          {static_cast<double>(bench.bytes()), samples.median(), samples.interquartile_range()});
    };
    add(times.all_gather, [&] { bench.all_gather(); });
    add(times.reduce_scatter, [&] { bench.reduce_scatter(); });
    add(times.all_reduce, [&] { bench.all_reduce(); });
    add(times.all_to_all, [&] { bench.all_to_all(); });
  }
  return times;
}

std::string to_json(const CollectiveTimes& times) {
  return nlohmann::json{{"all_gather", json_of(times.all_gather)},
                        {"reduce_scatter", json_of(times.reduce_scatter)},
                        {"all_reduce", json_of(times.all_reduce)},
                        {"all_to_all", json_of(times.all_to_all)}}
      .dump();
}

CollectiveTimes parse_collective_times(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {curve_of(json.at("all_gather")), curve_of(json.at("reduce_scatter")),
          curve_of(json.at("all_reduce")), curve_of(json.at("all_to_all"))};
}

}  // namespace athanor
