// SPDX-License-Identifier: Apache-2.0
#include "sim/settings/settled_settings.hpp"

#include "sim/base/errors.hpp"
#include "sim/model/enum_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace athanor {
namespace {

std::string where(const PeerSettings& settings, const Origin& origin) {
  return settings.file + ":" + text_of(origin);
}

bool is_in_file(const Origin& origin) { return origin.line > 0; }

/// Gives a value that the file leaves open that of an option. Throws InputError where both say
/// something else.
template <typename T, typename Given>
void take_option(PeerSettings& settings, Setting<T>& setting, const char* option,
                 std::optional<Given> given) {
  if (!given) return;
  const bool is_open = setting.is_auto || !is_in_file(setting.origin);
  if (is_open) {
    settings.notes.push_back(
        fmt::format("auto: {} = {}, from {}", text_of(setting.origin), *given, option));
    setting.value = static_cast<T>(*given);
    setting.is_auto = false;
  } else if (setting.value != static_cast<T>(*given)) {
    throw InputError(
        option,
        fmt::format("{}, but {} says {}", *given, where(settings, setting.origin), setting.value),
        "Leave the option out, or make the two agree.");
  }
}

template <typename T>
std::optional<T> given(T value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

[[noreturn]] void reject_open(const PeerSettings& settings, const Origin& origin, bool is_auto,
                              const char* option, const std::string& why) {
  if (origin.key.starts_with("--")) {
    throw InputError(option, "is missing",
                     fmt::format("{} does not say it: {}.", settings.file, why));
  }
  throw InputError(where(settings, origin),
                   is_auto ? "\"auto\" leaves it to the training script" : "is missing",
                   fmt::format("Give {}: {}.", option, why));
}

void settle_gpus(PeerSettings& settings, const SettingsOptions& options) {
  if (!is_in_file(settings.num_gpus.origin))
    settings.num_gpus.value = options.num_gpus;
  else
    take_option(settings, settings.num_gpus, "--gpus", given(options.num_gpus));
  if (settings.num_gpus.value > 0) return;
  throw InputError("--gpus", "is missing", "Say on how many GPUs the settings run.");
}

/// Computes the one of the three that is not known from the other two.
void complete_product(PeerSettings& settings) {
  const std::int64_t gpus = settings.num_gpus.value;
  std::int64_t& global = settings.global_batch.value;
  std::int64_t& micro = settings.micro_batch.value;
  std::int64_t& accumulation = settings.accumulation.value;
  // DeepSpeed does not accumulate where neither says so.
  if (accumulation == 0 && (global == 0 || micro == 0) && !settings.accumulation.is_auto) {
    accumulation = 1;
  }
  if (global == 0 && micro > 0 && accumulation > 0) global = micro * accumulation * gpus;
  if (global > 0 && micro > 0 && accumulation == 0) accumulation = global / (micro * gpus);
  if (global > 0 && accumulation > 0 && micro == 0) micro = global / (accumulation * gpus);
}

void check_product(const PeerSettings& settings) {
  const std::int64_t gpus = settings.num_gpus.value, global = settings.global_batch.value;
  const std::int64_t micro = settings.micro_batch.value;
  const std::int64_t accumulation = settings.accumulation.value;
  if (global > 0 && micro > 0 && global == micro * accumulation * gpus) return;
  throw InputError(where(settings, settings.global_batch.origin),
                   fmt::format("{} sequences are not {} ({}) x {} ({}) x {} GPUs", global, micro,
                               text_of(settings.micro_batch.origin), accumulation,
                               text_of(settings.accumulation.origin), gpus),
                   "Make the three agree, or take one of them out.");
}

/// Says which option is missing where the batch is not determined.
void require_batch(const PeerSettings& settings) {
  const auto open = [&](const Setting<std::int64_t>& setting, const char* option, const char* why) {
    if (setting.value == 0) reject_open(settings, setting.origin, setting.is_auto, option, why);
  };
  open(settings.micro_batch, "--micro-batch", "sequences that a GPU computes at once");
  open(settings.global_batch, "--global-batch", "sequences of a step over all GPUs");
}

void settle_clip(PeerSettings& settings, const SettingsOptions& options) {
  take_option(settings, settings.clip, "--clip", options.clip);
  if (!settings.clip.is_auto) return;
  reject_open(
      settings, settings.clip.origin, true, "--clip",
      "the norm to which the script clips, 1.0 in transformers; for none, set the key to 0");
}

void settle_type(PeerSettings& settings, const Profile& profile) {
  auto& dtype = settings.dtype;
  if (!dtype.value) {
    dtype.value = profile.dtype;
    settings.notes.push_back(fmt::format("auto: {}: the profile is of {}", text_of(dtype.origin),
                                         name_of(kShortDataTypeNames, profile.dtype)));
  }
  if (*dtype.value == profile.dtype) return;
  throw InputError(where(settings, dtype.origin),
                   fmt::format("trains in {}, but the profile is of {}",
                               name_of(kShortDataTypeNames, *dtype.value),
                               name_of(kShortDataTypeNames, profile.dtype)),
                   fmt::format("Profile the model with --dtype {}.",
                               name_of(kShortDataTypeNames, *dtype.value)));
}

/// transformers sets an automatic bucket to 0.9 of the square of the hidden size.
void settle_prefetch(PeerSettings& settings, const Profile& profile) {
  auto& elements = settings.prefetch_elements;
  const auto& model = profile.architecture.language_model;
  if (!elements.is_auto || !model) return;
  constexpr double kShare = 0.9;
  const auto width = static_cast<double>(model->hidden_size);
  elements.value = static_cast<std::int64_t>(kShare * width * width);
  elements.is_auto = false;
  settings.notes.push_back(
      fmt::format("auto: {} = {}, 0.9 of the hidden size squared, as transformers sets it",
                  text_of(elements.origin), elements.value));
}

/// Rejects places that the systems refuse, and those that plans of athanor cannot have.
void check_places(const PeerSettings& settings) {
  const auto reject = [&](const Origin& origin, const char* problem, const char* hint) {
    throw InputError(where(settings, origin), problem, hint);
  };
  const Home optimizer = settings.optimizer.value, parameters = settings.parameters.value;
  const Partition partition = settings.partition.value;
  if (partition == Partition::None && optimizer != Home::Gpu) {
    reject(settings.optimizer.origin, "goes with state that is divided over GPUs alone",
           "Shard the optimizer (ZeRO stage 1 to 3, FSDP), or take it out.");
  }
  if (partition != Partition::Parameters) {
    if (optimizer == Home::Nvme || settings.optimizer_share.value < 1) {
      reject(settings.optimizer.origin, "nvme, or a ratio below 1, is for stage 3 alone",
             "Use stage 3, or the device cpu with a ratio of 1.");
    }
    if (parameters != Home::Gpu) {
      reject(settings.parameters.origin, "is for stage 3 alone", "Use stage 3, or take it out.");
    }
  }
  const bool some_state_on_gpu = optimizer == Home::Gpu || settings.optimizer_share.value < 1;
  if (parameters != Home::Gpu && some_state_on_gpu) {
    reject(settings.parameters.origin,
           "is not modelled where optimizer state stays on the GPU: athanor keeps state where "
           "parameters are, or farther away",
           "Offload all of the optimizer, too, or keep the parameters on the GPU.");
  }
  if (parameters == Home::Nvme && optimizer != Home::Nvme) {
    reject(settings.parameters.origin, "nvme is not modelled without the optimizer there, too",
           "Set both to nvme, or this one to cpu.");
  }
}

/// Notes values that the file left open and the others give.
void note_derived(PeerSettings& settings) {
  for (const auto* setting :
       {&settings.global_batch, &settings.micro_batch, &settings.accumulation}) {
    if (!setting->is_auto || setting->origin.key.empty()) continue;
    settings.notes.push_back(
        fmt::format("auto: {} = {}, from the other two", text_of(setting->origin), setting->value));
  }
}

}  // namespace

void settle_batch(PeerSettings& settings, const SettingsOptions& options) {
  check_places(settings);
  settle_gpus(settings, options);
  take_option(settings, settings.micro_batch, "--micro-batch", given(options.micro_batch));
  take_option(settings, settings.global_batch, "--global-batch", given(options.global_batch));
  settle_clip(settings, options);
  complete_product(settings);
  require_batch(settings);
  check_product(settings);
  note_derived(settings);
  if (options.recompute && settings.recompute.value.every == 0) {
    settings.recompute.value.every = 1;
    settings.recompute.origin = {"--recompute", 0};
  }
}

void settle_model(PeerSettings& settings, const Profile& profile) {
  settle_type(settings, profile);
  settle_prefetch(settings, profile);
  const std::int64_t length = settings.sequence_length.value;
  if (length > 0 && length != profile.sequence_length) {
    throw InputError(where(settings, settings.sequence_length.origin),
                     fmt::format("sequences of {} tokens, but the profile is of {}", length,
                                 profile.sequence_length),
                     fmt::format("Profile the model with --seq {}.", length));
  }
  const std::vector<std::int64_t> sizes = profile.micro_batches();
  if (std::ranges::find(sizes, settings.micro_batch.value) != sizes.end()) return;
  throw InputError(where(settings, settings.micro_batch.origin),
                   fmt::format("{} was not profiled", settings.micro_batch.value),
                   fmt::format("Profile it (--micro-batches {}), or set one of {}.",
                               settings.micro_batch.value, fmt::join(sizes, ", ")));
}

}  // namespace athanor
