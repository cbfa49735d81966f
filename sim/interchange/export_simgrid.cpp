// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/export_simgrid.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

namespace athanor {
namespace {

constexpr int kMaxDevices = 256;

/// Head of the file. SimGrid's protocol corrections do not hold on PCIe and NVLink; CM02 without
/// them is fluid sharing alone. SimGrid shares a link in inverse proportion to latency, so
/// latencies are 0.
constexpr const char* kHeader = R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <!-- Corrections off: fluid max-min sharing alone. Latencies are 0, because SimGrid shares a link in inverse
       proportion to latency: let an activity wait for startup_seconds before its transfer.
       A lane's link has the bandwidth that one activity takes alone at full speed, in the unit of the platform
       file's shared resources. Transfer (bytes / bytes_per_second) x bandwidth; where the two are equal, bytes.
       Measured contention between lanes is no link's capacity and is not in this file. -->
  <config id="General">
    <prop id="network/model" value="CM02"/>
    <prop id="network/crosstraffic" value="0"/>
    <prop id="network/TCP-gamma" value="0"/>
    <prop id="network/weight-S" value="0"/>
  </config>
  <zone id="node" routing="Full">
)";

/// Returns `text` for an attribute. XML cannot express most control characters, so they become '?'.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      constexpr unsigned char kFirstPrintable = 0x20;
      out += code < kFirstPrintable ? '?' : c;
    }
  }
  return out;
}

/// Start-up time and rate of a curve: the line through its last two points.
struct Line {
  double per_second = 0;  ///< 0: no curve
  Seconds startup = 0;
};

Line line_of(const Curve& curve) {
  if (curve.points.empty()) return {};
  const Curve::Point& last = curve.points.back();
  const Curve::Point first =
      curve.points.size() > 1 ? curve.points[curve.points.size() - 2] : Curve::Point{};
  const double seconds = last.seconds - first.seconds;
  if (seconds <= 0 || last.size <= first.size) return {};
  const double rate = (last.size - first.size) / seconds;
  return {rate, std::max(0.0, last.seconds - last.size / rate)};
}

/// Returns the line of the all-gather over the most ranks of a node.
Line collective_line(const Platform& platform) {
  const Curve* widest = nullptr;
  for (const CollectiveCurve& curve : platform.all_gather) {
    if (curve.world_size <= platform.num_devices) widest = &curve.curve;
  }
  return widest == nullptr ? Line{} : line_of(*widest);
}

class Writer {
 public:
  explicit Writer(const Platform& platform) : platform_(platform), text_(kHeader) {
    lines_[Lane::H2D] = line_of(platform.h2d);
    lines_[Lane::D2H] = line_of(platform.d2h);
    lines_[Lane::Collective] = collective_line(platform);
    lines_[Lane::NvmeRead] = line_of(platform.file_read);
    lines_[Lane::NvmeWrite] = line_of(platform.file_write);
  }

  std::string write() {
    text_ +=
        fmt::format("    <host id=\"host\" speed=\"1f\" core=\"{}\"/>\n", platform_.host_cores);
    for (const SharedResource& resource : platform_.shared) {
      if (resource.scope == SharedResource::Scope::Node)
        add_link(resource_id(resource, 0), resource);
    }
    for (int device = 0; device < platform_.num_devices; ++device) add_device(device);
    for (int device = 0; device < platform_.num_devices; ++device) add_routes(device);
    return text_ + "  </zone>\n</platform>\n";
  }

 private:
  [[nodiscard]] static std::string device_id(int device) { return fmt::format("gpu-{}", device); }
  [[nodiscard]] static std::string lane_id(int device, Lane lane) {
    return fmt::format("gpu-{}.{}", device, lane_name(lane));
  }
  [[nodiscard]] static std::string resource_id(const SharedResource& resource, int device) {
    const std::string name = "shared: " + escaped(resource.name);
    const bool per_node = resource.scope == SharedResource::Scope::Node;
    return per_node ? name : fmt::format("{} of {}", name, device_id(device));
  }

  /// Returns the amount per second that one activity of the lane takes: its own rate where it
  /// shares nothing, 0 where it has none.
  [[nodiscard]] double bandwidth(Lane lane) const {
    for (const SharedResource& resource : platform_.shared) {
      const auto use = resource.use.find(lane);
      if (use != resource.use.end()) return use->second;
    }
    const auto line = lines_.find(lane);
    return line == lines_.end() ? 0 : line->second.per_second;
  }

  void add_link(const std::string& id, const SharedResource& resource) {
    text_ += fmt::format("    <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"0s\"/>\n", id,
                         resource.capacity);
  }

  void add_lane(int device, Lane lane) {
    text_ += fmt::format("    <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"0s\">\n",
                         lane_id(device, lane), bandwidth(lane));
    const auto line = lines_.find(lane);
    if (line != lines_.end() && line->second.per_second > 0) {
      text_ += fmt::format("      <prop id=\"bytes_per_second\" value=\"{}\"/>\n",
                           line->second.per_second);
      text_ +=
          fmt::format("      <prop id=\"startup_seconds\" value=\"{}\"/>\n", line->second.startup);
    }
    text_ += "    </link>\n";
  }

  void add_device(int device) {
    text_ += fmt::format("    <host id=\"{}\" speed=\"{}f\">\n", device_id(device),
                         platform_.matmul_flops_per_second);
    text_ += fmt::format("      <prop id=\"memory_bytes\" value=\"{}\"/>\n    </host>\n",
                         platform_.device_memory);
    for (const SharedResource& resource : platform_.shared) {
      if (resource.scope == SharedResource::Scope::Device) {
        add_link(resource_id(resource, device), resource);
      }
    }
    for (const Lane lane : kLanes) {
      if (bandwidth(lane) <= 0) continue;
      add_lane(device, lane);
      // A lane that moves nothing between hosts has a host of its own to end at.
      if (lane == Lane::Compute || is_host_lane(lane)) {
        text_ += fmt::format("    <host id=\"{}\" speed=\"1f\"/>\n", lane_id(device, lane));
      }
    }
  }

  void add_route(const std::string& from, const std::string& to, int device, Lane lane) {
    text_ += fmt::format("    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">\n", from, to);
    const auto add = [this](const std::string& id) {
      text_ += fmt::format("      <link_ctn id=\"{}\"/>\n", id);
    };
    add(lane_id(device, lane));
    for (const SharedResource& resource : platform_.shared) {
      if (resource.use.contains(lane)) add(resource_id(resource, device));
    }
    text_ += "    </route>\n";
  }

  void add_routes(int device) {
    const auto has = [this](Lane lane) { return bandwidth(lane) > 0; };
    const std::string self = device_id(device);
    if (has(Lane::H2D)) add_route("host", self, device, Lane::H2D);
    if (has(Lane::D2H)) add_route(self, "host", device, Lane::D2H);
    if (has(Lane::Compute)) add_route(self, lane_id(device, Lane::Compute), device, Lane::Compute);
    for (const Lane lane : kLanes) {
      if (is_host_lane(lane) && has(lane)) add_route("host", lane_id(device, lane), device, lane);
    }
    if (!has(Lane::Collective)) return;
    for (int other = 0; other < platform_.num_devices; ++other) {
      if (other != device) add_route(self, device_id(other), device, Lane::Collective);
    }
  }

  const Platform& platform_;
  std::map<Lane, Line> lines_;
  std::string text_;
};

}  // namespace

std::string export_simgrid(const Platform& platform) {
  if (platform.num_devices > kMaxDevices) {
    throw InputError(fmt::format("platform {}:num_devices", platform.name),
                     fmt::format("{} devices need {} routes", platform.num_devices,
                                 std::int64_t{platform.num_devices} * platform.num_devices),
                     fmt::format("Export a platform of at most {}.", kMaxDevices));
  }
  return Writer(platform).write();
}

}  // namespace athanor
