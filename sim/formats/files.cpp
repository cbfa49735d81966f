// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/files.hpp"

#include "sim/base/text_file.hpp"

namespace athanor {
Profile read_profile(const std::string& path) {
  return parse_profile(read_text_file(path, kMaxDocument), path);
}

Platform read_platform(const std::string& path) {
  return parse_platform(read_text_file(path, kMaxDocument), path);
}

Plan read_plan(const std::string& path) {
  return parse_plan(read_text_file(path, kMaxDocument), path);
}

MeasuredRates read_rates(const std::string& path) {
  return parse_rates(read_text_file(path, kMaxDocument), path);
}

}  // namespace athanor
