// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/device_timer.hpp"

#include "executor/cuda/handles.hpp"

#include <c10/cuda/CUDAStream.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace athanor::test {
namespace {

constexpr int kRounds = 7;
constexpr double kRoundMilliseconds = 60;

/// Mean milliseconds of `count` runs, one after another.
double time_runs(const Variant& variant, int count) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const cuda::Event begin, end;
  begin.record(stream);
  for (int i = 0; i < count; ++i) variant.run();
  end.record(stream);
  cuda::check(cudaEventSynchronize(end.get()), "wait for the benchmark");
  return end.since(begin) * 1e3 / count;
}

int runs_per_round(const Variant& variant) {
  time_runs(variant, 2);  // first calls load kernels and memory
  return std::max(1, static_cast<int>(kRoundMilliseconds / time_runs(variant, 3)));
}

}  // namespace

std::vector<double> time_in_turns(const std::vector<Variant>& variants) {
  std::vector<int> counts;
  for (const Variant& variant : variants) counts.push_back(runs_per_round(variant));
  std::vector<std::vector<double>> times(variants.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      times[i].push_back(time_runs(variants[i], counts[i]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_variant : times) {
    std::nth_element(of_variant.begin(), of_variant.begin() + kRounds / 2, of_variant.end());
    medians.push_back(of_variant[kRounds / 2]);
  }
  return medians;
}

void report(const std::string& name, const std::vector<Variant>& variants, double bytes) {
  nlohmann::ordered_json line{{"case", name}};
  const std::vector<double> milliseconds = time_in_turns(variants);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    line["ms"][variants[i].name] = milliseconds[i];
    if (bytes > 0) line["gb_per_second"][variants[i].name] = bytes / milliseconds[i] * 1e-6;
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace athanor::test
