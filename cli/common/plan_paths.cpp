// SPDX-License-Identifier: Apache-2.0
#include "cli/common/plan_paths.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"

#include <filesystem>

namespace athanor::cli {

namespace fs = std::filesystem;

std::string stored_path(const std::string& target, const std::string& plan_path) {
  const fs::path folder = fs::absolute(plan_path).parent_path();
  std::string stored =
      fs::absolute(target).lexically_normal().lexically_proximate(folder.lexically_normal());
  if (!is_utf8(stored)) {
    throw InputError(target, "is no UTF-8, and a plan cannot hold such a path",
                     "Rename the file, or leave --output out.");
  }
  return stored;
}

std::string resolved_path(const std::string& stored, const std::string& plan_path) {
  return (fs::path(plan_path).parent_path() / stored).lexically_normal();
}

}  // namespace athanor::cli
