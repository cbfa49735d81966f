// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/file_curves.hpp"

#include "calibrate/activities/rotating_file.hpp"
#include "calibrate/bench/measure.hpp"
#include "calibrate/machine/machine.hpp"
#include "executor/io/file_system.hpp"

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

FileCurves measure_files(const std::string& folder, const FileMeasurementOptions& options) {
  const RotatingFile file(folder, options.file);
  FileCurves curves;
  curves.method = file.direct() ? "O_DIRECT" : "page cache dropped before reads, written through";
  for (const Bytes bytes : options.sizes) {
    const auto measured = [&](Lane lane) {
      return point(bytes, measure(options.rule, file.activity(lane, bytes)));
    };
    curves.write.points.push_back(measured(Lane::NvmeWrite));
    curves.read.points.push_back(measured(Lane::NvmeRead));
  }
  return curves;
}

void measure_storage(const std::string& folder, const FileMeasurementOptions& options,
                     Platform& platform) {
  FileCurves files = measure_files(folder, options);
  platform.file_read = std::move(files.read);
  platform.file_write = std::move(files.write);
  platform.file_system = file_system_of(folder);
  add_note(platform.provenance, "files: " + files.method);
}

std::vector<PairSlowdown> measure_file_pairs(const std::string& folder,
                                             const FileMeasurementOptions& options) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : {Lane::NvmeRead, Lane::NvmeWrite}) {
    const auto piece = [&] {
      return RotatingFile(folder, options.file).activity(lane, options.piece);
    };
    lanes[lane] = {piece(), piece()};
  }
  return measure_pairs(lanes, options.rule);
}

}  // namespace athanor
