// SPDX-License-Identifier: Apache-2.0
// Typed access to one object of a settings file. Every complaint names file, key, line and the way
// out. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/settings/peer_settings.hpp"
#include "sim/settings/settings_document.hpp"

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// A key whose effect athanor does not model.
struct UnmodelledKey {
  std::string_view key;
  std::string_view neutral;  ///< the value without effect, as JSON; empty: there is none
  std::string_view meaning;  ///< "athanor overlaps reductions with backward"
  bool is_error = false;     ///< the prediction would be of something else
};

/// One object, which may be absent and then is empty. It remembers which keys were asked for. The
/// document outlives it. "auto" gives the default value and Setting::is_auto.
class SettingsSection {
 public:
  explicit SettingsSection(const SettingsDocument& document);

  [[nodiscard]] bool has(const std::string& key) const;
  /// Inner object; empty where it is absent or null.
  [[nodiscard]] SettingsSection section(const std::string& key);
  [[nodiscard]] Setting<bool> flag(const std::string& key, bool otherwise);
  /// Whole number of at least `lowest`; 1e9 is one too.
  [[nodiscard]] Setting<std::int64_t> count(const std::string& key, std::int64_t otherwise,
                                            std::int64_t lowest = 0);
  [[nodiscard]] Setting<double> number(const std::string& key, double otherwise,
                                       double highest = kMaxNumber);
  [[nodiscard]] Setting<std::string> word(const std::string& key, const std::string& otherwise);
  /// A word of `choices`. Throws InputError for any other.
  [[nodiscard]] Setting<std::string> choice(const std::string& key,
                                            std::initializer_list<const char*> choices);

  /// Place that an offload names: none, cpu or nvme.
  [[nodiscard]] Setting<Home> device(const std::string& key);

  /// Marks keys as known that change neither time nor memory of a step.
  void pass_over(std::initializer_list<const char*> keys);
  /// Notes each key that has another value than its neutral one, or rejects it.
  void unmodelled(std::span<const UnmodelledKey> keys, std::vector<std::string>& notes);
  /// Throws InputError for a key that was never asked for; names the nearest.
  void reject_other_keys() const;
  /// Notes keys that were never asked for; names the nearest.
  void note_other_keys(std::vector<std::string>& notes) const;

  [[noreturn]] void reject(const std::string& key, const std::string& problem,
                           const std::string& hint) const;
  [[nodiscard]] Origin origin(const std::string& key) const;
  /// Value as it stands in the file, shortened; "absent".
  [[nodiscard]] std::string shown(const std::string& key) const;

 private:
  SettingsSection(const SettingsDocument& document, const nlohmann::json* object, std::string path);
  [[nodiscard]] const nlohmann::json* find(const std::string& key);
  [[nodiscard]] std::vector<std::string> other_keys() const;
  [[noreturn]] void reject_type(const std::string& key, const std::string& expected) const;

  const SettingsDocument* document_;
  const nlohmann::json* object_;  ///< nullptr: absent
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace athanor
