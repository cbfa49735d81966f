// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/program_json.hpp"

#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace athanor::cli {
namespace {

nlohmann::ordered_json operation_json(const Program& program, std::int32_t index) {
  const Operation& op = program.operations[static_cast<std::size_t>(index)];
  nlohmann::ordered_json json;
  json["name"] = program.name(index);
  json["kind"] = op_kind_name(op.kind);
  json["lane"] = lane_name(op.lane);
  if (op.bytes > 0) json["bytes"] = op.bytes;
  if (op.elements > 0) json["elements"] = op.elements;
  if (op.compute_seconds > 0) json["compute_seconds"] = op.compute_seconds;
  if (op.slot >= 0) json["slot"] = op.slot;
  if (op.gradient_buffer >= 0) json["gradient_buffer"] = op.gradient_buffer;
  json["waits"] = op.waits;
  json["previous_waits"] = op.previous_waits;
  json["allocates"] = op.allocates;
  json["frees"] = op.frees;
  return json;
}

nlohmann::ordered_json buffers_json(const std::vector<Buffer>& buffers) {
  auto json = nlohmann::ordered_json::array();
  for (const Buffer& buffer : buffers) {
    json.push_back({{"name", buffer.name},
                    {"tier", name_of(kTierNames, buffer.tier)},
                    {"bytes", buffer.bytes}});
  }
  return json;
}

std::string size_text(const Operation& op) {
  if (op.compute_seconds > 0) return format_seconds(op.compute_seconds);
  if (op.bytes > 0) return format_bytes(op.bytes);
  return op.elements > 0 ? fmt::format("{} el", op.elements) : std::string("-");
}

}  // namespace

nlohmann::ordered_json program_json(const Program& program) {
  nlohmann::ordered_json json;
  json["world_size"] = program.world_size;
  json["operations"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    json["operations"].push_back(operation_json(program, static_cast<std::int32_t>(i)));
  }
  json["buffers"] = buffers_json(program.buffers);
  json["static_buffers"] = buffers_json(program.static_buffers);
  return json;
}

std::string program_text(const Program& program) {
  std::string text = fmt::format("{:>6}  {:<10}  {:>9}  {:<48}  {}\n", "#", "lane", "size",
                                 "operation", "waits (of the step before: ')");
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    std::vector<std::string> waits;
    for (const std::int32_t wait : op.waits) waits.push_back(std::to_string(wait));
    for (const std::int32_t wait : op.previous_waits) waits.push_back(fmt::format("{}'", wait));
    text += fmt::format("{:>6}  {:<10}  {:>9}  {:<48}  {}\n", i, lane_name(op.lane), size_text(op),
                        program.name(static_cast<std::int32_t>(i)), fmt::join(waits, " "));
  }
  return text;
}

}  // namespace athanor::cli
