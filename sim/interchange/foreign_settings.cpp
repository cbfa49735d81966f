// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/foreign_settings.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace athanor {
namespace {

using Json = nlohmann::json;

std::string zero_policy(int stage, bool offloads_optimizer, bool uses_nvme) {
  if (uses_nvme && stage == 3) return "--policy zero-infinity";
  constexpr std::array kStages{"ddp", "zero1", "zero2", "zero3"};
  const auto known = static_cast<std::size_t>(std::clamp(stage, 0, 3));
  // ZeRO-Offload of stage 1 keeps gradients whole; zero2-offload is the nearest.
  const bool offloads = offloads_optimizer && known > 0;
  return fmt::format("--policy {}{}", offloads && known == 1 ? "zero2" : kStages[known],
                     offloads ? "-offload" : "");
}

/// Adds an option whose value is a number; "auto" and absent values are left out.
void add_number(std::string& options, const Json& json, const char* key, const char* option) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number() || found->get<double>() <= 0) return;
  options += fmt::format(" {} {}", option, found->dump());
}

std::string device_of(const Json& zero, const char* key) {
  const auto offload = zero.find(key);
  if (offload == zero.end() || !offload->is_object()) return "none";
  const auto device = offload->find("device");
  return device != offload->end() && device->is_string() ? device->get<std::string>() : "none";
}

std::optional<ForeignSettings> read_deepspeed(const Json& json) {
  const auto zero = json.find("zero_optimization");
  const bool is_deepspeed = zero != json.end() || json.contains("train_batch_size") ||
                            json.contains("train_micro_batch_size_per_gpu");
  if (!is_deepspeed) return std::nullopt;
  const Json settings = zero != json.end() && zero->is_object() ? *zero : Json::object();
  const auto stage = settings.find("stage");
  const std::string optimizer = device_of(settings, "offload_optimizer");
  const bool nvme = optimizer == "nvme" || device_of(settings, "offload_param") == "nvme";
  std::string options =
      zero_policy(stage != settings.end() && stage->is_number_integer() ? stage->get<int>() : 0,
                  optimizer != "none", nvme);
  add_number(options, json, "train_batch_size", "--global-batch");
  add_number(options, json, "train_micro_batch_size_per_gpu", "--micro-batch");
  add_number(options, json, "gradient_clipping", "--clip");
  return ForeignSettings{"DeepSpeed", options};
}

/// Returns the value of a key in a file of lines "key: value" or "key = value"; empty without it.
std::string value_of_key(std::string_view text, std::string_view key) {
  for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const bool starts = at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ';
    std::string_view rest = text.substr(at + key.size());
    const auto mark = rest.find_first_not_of(' ');
    if (!starts || mark == std::string_view::npos || (rest[mark] != ':' && rest[mark] != '=')) {
      continue;
    }
    rest = rest.substr(mark + 1, rest.find('\n') - mark - 1);
    const auto first = rest.find_first_not_of(" \"'");
    if (first == std::string_view::npos) return "";
    return std::string(rest.substr(first, rest.find_last_not_of(" \"'\r") - first + 1));
  }
  return "";
}

bool says_yes(const std::string& value) { return value == "true" || value == "True"; }

std::optional<ForeignSettings> read_accelerate(std::string_view text) {
  const std::string type = value_of_key(text, "distributed_type");
  if (type.empty()) return std::nullopt;
  if (type == "DEEPSPEED") {
    const std::string stage = value_of_key(text, "zero_stage");
    const std::string device = value_of_key(text, "offload_optimizer_device");
    int number = 0;
    std::from_chars(stage.data(), stage.data() + stage.size(), number);
    const bool offloads = !device.empty() && device != "none";
    return ForeignSettings{"accelerate", zero_policy(number, offloads, device == "nvme")};
  }
  if (type != "FSDP") return ForeignSettings{"accelerate", "--policy ddp"};
  const bool offloads = says_yes(value_of_key(text, "fsdp_offload_params"));
  return ForeignSettings{"accelerate", offloads ? "--policy fsdp2-offload" : "--policy fsdp2"};
}

std::optional<ForeignSettings> read_torchtitan(std::string_view text) {
  if (text.find("[parallelism]") == std::string_view::npos &&
      text.find("[training]") == std::string_view::npos) {
    return std::nullopt;
  }
  const bool offloads = says_yes(value_of_key(text, "enable_cpu_offload"));
  const bool replicates = value_of_key(text, "data_parallel_shard_degree") == "1";
  const char* policy = replicates ? "ddp" : offloads ? "fsdp2-offload" : "fsdp2";
  std::string options = fmt::format("--policy {}", policy);
  const std::string norm = value_of_key(text, "max_norm");
  if (!norm.empty()) options += " --clip " + norm;
  return ForeignSettings{"torchtitan", options};
}

}  // namespace

std::optional<ForeignSettings> foreign_settings(std::string_view text) {
  constexpr std::size_t kLongest = 1 << 20;
  if (text.size() > kLongest) return std::nullopt;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  if (text[first] != '{') {
    const auto accelerate = read_accelerate(text);
    return accelerate ? accelerate : read_torchtitan(text);
  }
  // Plans are the common case, and are told without being parsed twice.
  if (text.find("\"athanor.") != std::string_view::npos) return std::nullopt;
  const bool deep = std::count(text.begin(), text.end(), '{') > 1000;
  const Json json = deep ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? read_deepspeed(json) : std::nullopt;
}

}  // namespace athanor
