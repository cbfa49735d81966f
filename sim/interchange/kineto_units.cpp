// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/kineto_units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace athanor {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int32_t kSeveral = -2;

/// Class names of blocks in transformers, by model type.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kBlockClasses{
    {{"gpt2", "GPT2Block"},
     {"opt", "OPTDecoderLayer"},
     {"llama", "LlamaDecoderLayer"},
     {"mistral", "MistralDecoderLayer"},
     {"qwen2", "Qwen2DecoderLayer"},
     {"qwen3", "Qwen3DecoderLayer"}}};

std::string_view without_last(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace

KinetoUnits::KinetoUnits(const Architecture& architecture, const KinetoStep& step)
    : architecture_(architecture), step_(step) {
  for (std::size_t i = 0; i < architecture.units.size(); ++i) {
    const auto unit = static_cast<std::int32_t>(i);
    for (const Parameter& parameter : architecture.units[i].parameters) {
      for (std::string_view path = parameter.name; !path.empty(); path = without_last(path)) {
        const auto [found, is_new] = paths_.try_emplace(std::string(path), unit);
        if (!is_new && found->second != unit) found->second = kSeveral;
      }
    }
  }
  // A head that shares the embedding's matrix owns no parameter of this name.
  if (architecture.language_model && !architecture.units.empty()) {
    paths_.try_emplace("lm_head", static_cast<std::int32_t>(architecture.units.size()) - 1);
  }
  for (const std::string& label : step.labels) units_.push_back(unit_of(label));
  find_blocks();
  count_passes();
}

/// Returns the unit of a label such as "transformer.h.3.attn" or "nn.Module: GPT2Block_3".
std::int32_t KinetoUnits::unit_of(std::string_view label) const {
  if (label.starts_with(kModulePrefix)) return unit_of_class(label.substr(kModulePrefix.size()));
  constexpr std::string_view kWrapper = "module.";
  while (label.starts_with(kWrapper)) label.remove_prefix(kWrapper.size());
  for (; !label.empty(); label = without_last(label)) {
    const auto found = paths_.find(label);
    if (found != paths_.end()) return found->second == kSeveral ? kNone : found->second;
  }
  return kNone;
}

/// Returns the unit of a block. The profiler numbers the modules of a class in the order in which
/// they first run.
std::int32_t KinetoUnits::unit_of_class(std::string_view module) const {
  const auto mark = module.rfind('_');
  if (!architecture_.language_model || mark == std::string_view::npos) return kNone;
  const std::pair<std::string_view, std::string_view> wanted{
      architecture_.language_model->model_type, module.substr(0, mark)};
  if (std::find(kBlockClasses.begin(), kBlockClasses.end(), wanted) == kBlockClasses.end()) {
    return kNone;
  }
  std::int32_t number = 0;
  const char* end = module.data() + module.size();
  const auto [rest, status] = std::from_chars(module.data() + mark + 1, end, number);
  const bool is_block = status == std::errc{} && rest == end && number >= 0 &&
                        number < architecture_.language_model->num_layers;
  return is_block ? number + 1 : kNone;  // + 1: after the embedding
}

/// Finds the ranges of blocks: all units but the first and the last.
void KinetoUnits::find_blocks() {
  const auto last = static_cast<std::int32_t>(architecture_.units.size()) - 1;
  blocks_.resize(step_.threads.size());
  for (std::size_t thread = 0; thread < step_.threads.size(); ++thread) {
    const auto& ranges = step_.threads[thread].annotations.ranges();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const std::int32_t unit = units_[static_cast<std::size_t>(ranges[i].label)];
      if (unit > 0 && unit < last) blocks_[thread].push_back(static_cast<std::int32_t>(i));
    }
  }
}

void KinetoUnits::count_passes() {
  if (step_.main_thread < 0) return;
  std::map<std::int32_t, std::int64_t> counts;
  const KinetoThread& main = step_.threads[static_cast<std::size_t>(step_.main_thread)];
  for (const KinetoRange& range : main.annotations.ranges()) {
    const bool runs_again = main.nodes.innermost(range.start) >= 0;
    if (runs_again || units_[static_cast<std::size_t>(range.label)] < 0) continue;
    passes_ = std::max(passes_, ++counts[range.label]);
  }
}

std::optional<std::size_t> KinetoUnits::at(const KinetoPoint& point) const {
  if (point.thread < 0) return std::nullopt;
  const auto thread = static_cast<std::size_t>(point.thread);
  const RangeTree& ranges = step_.threads[thread].annotations;
  std::int32_t model = -1;
  for (std::int32_t i = ranges.innermost(point.time); i >= 0; i = ranges[i].parent) {
    const auto label = static_cast<std::size_t>(ranges[i].label);
    if (units_[label] >= 0) return static_cast<std::size_t>(units_[label]);
    if (step_.labels[label].starts_with(kModulePrefix)) model = i;
  }
  return model < 0 ? std::nullopt : beside_blocks(thread, ranges[model], point.time);
}

std::optional<std::size_t> KinetoUnits::beside_blocks(std::size_t thread, const KinetoRange& model,
                                                      double time) const {
  const RangeTree& ranges = step_.threads[thread].annotations;
  const std::vector<std::int32_t>& blocks = blocks_[thread];
  const auto first = std::partition_point(blocks.begin(), blocks.end(), [&](std::int32_t block) {
    return ranges[block].start < model.start;
  });
  const auto after = std::partition_point(
      first, blocks.end(), [&](std::int32_t block) { return ranges[block].start < model.end; });
  if (first == after) return std::nullopt;
  if (time < ranges[*first].start) return 0;
  const double last_end = ranges[*std::prev(after)].end;
  if (time >= last_end) return architecture_.units.size() - 1;
  return std::nullopt;
}

}  // namespace athanor
