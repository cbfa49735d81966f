// SPDX-License-Identifier: Apache-2.0
// Reads and writes by size, and beside each other.
#include "calibrate/activities/curves.hpp"
#include "calibrate/activities/file_walk.hpp"
#include "calibrate/bench/measure.hpp"
#include "calibrate/machine/disturbances.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

Curve::Point point(Bytes bytes, const Samples& samples) {
  return {static_cast<double>(bytes), samples.median(), samples.interquartile_range()};
}

}  // namespace

FileCurves measure_files(const std::string& folder, const FileMeasurementOptions& extent) {
  const RotatingFile file(folder, extent.file);
  FileCurves curves;
  curves.method = file.direct() ? "O_DIRECT" : "page cache dropped before reads, written through";
  for (const Bytes bytes : extent.sizes) {
    const auto measured = [&](Lane lane) {
      return point(bytes, measure(extent.rule, file.activity(lane, bytes)));
    };
    curves.write.points.push_back(measured(Lane::NvmeWrite));
    curves.read.points.push_back(measured(Lane::NvmeRead));
  }
  return curves;
}

void measure_file_sharing(const std::string& folder, const FileMeasurementOptions& extent,
                          Platform& platform) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : {Lane::NvmeRead, Lane::NvmeWrite}) {
    const auto piece = [&] {
      return RotatingFile(folder, extent.file).activity(lane, extent.piece);
    };
    lanes[lane] = {piece(), piece()};
  }
  const std::vector<Disturbance> pairs = measure_pairs(lanes, extent.rule);
  SharedResource nvme{"nvme", SharedResource::Scope::Node, 0, {}};
  nvme.use = {{Lane::NvmeRead, 1}, {Lane::NvmeWrite, 1}};
  nvme.capacity = common_capacity(crowds_of_two(pairs, {Lane::NvmeRead, Lane::NvmeWrite}));
  platform.shared.push_back(std::move(nvme));
}

}  // namespace athanor
