// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/chakra_trace.hpp"

#include "sim/base/errors.hpp"

#include <chakra_trace.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>

namespace athanor::cli {
namespace {

namespace pb = google::protobuf;

constexpr const char* kVersion = "1.0.0";

/// Values of Chakra's CollectiveCommType.
enum class CollectiveType : std::int64_t {
  AllReduce = 0,
  AllGather = 2,
  AllToAll = 6,
  ReduceScatter = 7
};

CollectiveType collective_type(const Operation& op) {
  if (op.kind == OpKind::ActivationReduce) return CollectiveType::ReduceScatter;
  if (op.kind == OpKind::ActivationGather) return CollectiveType::AllGather;
  if (is_exchange(op)) return CollectiveType::AllToAll;
  if (op.kind != OpKind::Reduce) return CollectiveType::AllGather;
  return op.all_reduce ? CollectiveType::AllReduce : CollectiveType::ReduceScatter;
}

/// Returns Chakra's type of `op`. A collective of one rank is a copy on its device.
chakra::NodeType node_type(const Operation& op, int world_size) {
  switch (op.lane) {
    case Lane::Collective:
      return world_size > 1 && !op.own ? chakra::COMM_COLL_NODE : chakra::COMP_NODE;
    case Lane::H2D:
    case Lane::NvmeRead:
      return chakra::MEM_LOAD_NODE;
    case Lane::D2H:
    case Lane::NvmeWrite:
      return chakra::MEM_STORE_NODE;
    case Lane::Compute:
    case Lane::CpuAdam:
      break;
  }
  return chakra::COMP_NODE;
}

template <typename Message>
chakra::Attribute& add_attribute(Message& message, const char* name) {
  chakra::Attribute& attribute = *message.add_attr();
  attribute.set_name(name);
  return attribute;
}

/// Adds type and size. A collective's size is that of its input: a shard for an all-gather.
void add_collective(chakra::Node& node, const Operation& op, int world_size) {
  const CollectiveType type = collective_type(op);
  const Bytes input = type == CollectiveType::AllGather ? op.bytes / world_size : op.bytes;
  add_attribute(node, "comm_type").set_int64_val(static_cast<std::int64_t>(type));
  add_attribute(node, "comm_size").set_int64_val(input);
}

/// Adds the operation's waits and the operation before it on its lane. Readers take order from
/// data_deps alone, and a lane runs one operation at a time.
void add_dependencies(chakra::Node& node, const Operation& op,
                      std::optional<std::int32_t> before_on_lane) {
  std::set<std::int32_t> waits(op.waits.begin(), op.waits.end());
  if (before_on_lane) {
    waits.insert(*before_on_lane);
    node.add_ctrl_deps(static_cast<std::uint64_t>(*before_on_lane));
  }
  for (const std::int32_t wait : waits) node.add_data_deps(static_cast<std::uint64_t>(wait));
  if (op.previous_waits.empty()) return;
  chakra::Numbers& previous =
      *add_attribute(node, "athanor.previous_step_deps").mutable_uint64_list();
  for (const std::int32_t wait : op.previous_waits) {
    previous.add_values(static_cast<std::uint64_t>(wait));
  }
}

chakra::Node make_node(const Program& program, std::int32_t index, Seconds seconds,
                       std::optional<std::int32_t> before_on_lane) {
  constexpr double kMicrosecond = 1e-6;
  const Operation& op = program.operations[static_cast<std::size_t>(index)];
  chakra::Node node;
  node.set_id(static_cast<std::uint64_t>(index));
  node.set_name(program.name(index));
  node.set_type(node_type(op, program.world_size));
  node.set_duration_micros(static_cast<std::uint64_t>(std::llround(seconds / kMicrosecond)));
  add_dependencies(node, op, before_on_lane);
  add_attribute(node, "is_cpu_op").set_bool_val(is_host_lane(op.lane));
  add_attribute(node, "athanor.lane").set_string_val(lane_name(op.lane));
  add_attribute(node, "athanor.seconds").set_double_val(seconds);
  if (node.type() == chakra::COMM_COLL_NODE) {
    add_collective(node, op, program.world_size);
  } else if (op.bytes > 0) {
    add_attribute(node, "tensor_size").set_uint64_val(static_cast<std::uint64_t>(op.bytes));
  }
  return node;
}

void append(std::string& out, const pb::MessageLite& message) {
  pb::io::StringOutputStream stream(&out);
  pb::io::CodedOutputStream coded(&stream);
  coded.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
  message.SerializeWithCachedSizes(&coded);
}

}  // namespace

std::string chakra_trace(const Program& program, const std::vector<Seconds>& solo_seconds) {
  if (std::ranges::any_of(program.operations,
                          [](const Operation& op) { return op.kind == OpKind::PeerMark; })) {
    throw InputError("plan:snapshot_copies", "Chakra has no collective that sends to a peer",
                     "Write the trace of the plan with snapshot_copies 1.");
  }
  chakra::Metadata metadata;
  metadata.set_version(kVersion);
  add_attribute(metadata, "athanor.world_size").set_int64_val(program.world_size);
  std::string out;
  append(out, metadata);
  std::array<std::optional<std::int32_t>, kNumLanes> last_on_lane;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    auto& last = last_on_lane[lane_index(program.operations[i].lane)];
    append(out, make_node(program, index, solo_seconds[i], last));
    last = index;
  }
  return out;
}

}  // namespace athanor::cli
