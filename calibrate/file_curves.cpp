// SPDX-License-Identifier: Apache-2.0
// Reads and writes that reach the device, by the executor's own files.
#include "calibrate/curves.hpp"
#include "calibrate/disturbances.hpp"
#include "calibrate/measure.hpp"
#include "executor/lanes/device.hpp"
#include "executor/lanes/scratch_file.hpp"
#include "sim/model/program.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr Bytes kAtOnce = 16 * kMiB;  ///< beside one another

MemoryBlock random_block(Bytes bytes) {
  MemoryBlock block = take_host_memory(bytes);
  const std::vector<float> values = random_floats(bytes / static_cast<Bytes>(sizeof(float)), 1);
  std::memcpy(block.get(), values.data(), values.size() * sizeof(float));
  return block;
}

Curve::Point point(Bytes bytes, const Samples& samples) {
  return {static_cast<double>(bytes), samples.median(), samples.interquartile_range()};
}

/// Reads or writes of a file of its own.
Activity file_activity(Lane lane, const std::string& folder, Bytes bytes) {
  const auto file = std::make_shared<ScratchFile>(folder, bytes);
  const std::shared_ptr<std::byte> block = random_block(bytes);
  const std::span<std::byte> data(block.get(), static_cast<std::size_t>(bytes));
  file->write(0, data);
  if (lane == Lane::NvmeRead) return [file, block, data] { file->read(0, data); };
  return [file, block, data] { file->write(0, data); };
}

}  // namespace

FileCurves measure_files(const std::string& folder, const std::vector<Bytes>& sizes,
                         const StoppingRule& rule) {
  FileCurves curves;
  const bool direct = ScratchFile(folder, kFileBlock).direct();
  curves.method = direct ? "O_DIRECT" : "page cache dropped before reads, written through";
  for (const Bytes bytes : sizes) {
    const auto measured = [&](Lane lane) {
      return point(bytes, measure(rule, file_activity(lane, folder, bytes)));
    };
    curves.write.points.push_back(measured(Lane::NvmeWrite));
    curves.read.points.push_back(measured(Lane::NvmeRead));
  }
  return curves;
}

void measure_file_sharing(const std::string& folder, const StoppingRule& rule, Platform& platform) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : {Lane::NvmeRead, Lane::NvmeWrite}) {
    lanes[lane] = {file_activity(lane, folder, kAtOnce), file_activity(lane, folder, kAtOnce)};
  }
  const std::vector<Disturbance> pairs = measure_pairs(lanes, rule);
  SharedResource nvme{"nvme", SharedResource::Scope::Node, 0, {}};
  nvme.use = {{Lane::NvmeRead, 1}, {Lane::NvmeWrite, 1}};
  nvme.capacity = common_capacity(crowds_of_two(pairs, {Lane::NvmeRead, Lane::NvmeWrite}));
  platform.shared.push_back(std::move(nvme));
  platform.disturbances.insert(platform.disturbances.end(), pairs.begin(), pairs.end());
}

}  // namespace athanor
