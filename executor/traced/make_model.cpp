// SPDX-License-Identifier: Apache-2.0
#include "executor/traced/make_model.hpp"

#include "executor/traced/traced_model.hpp"
#include "executor/units/language_model.hpp"
#include "executor/vision/image_classifier.hpp"

namespace athanor {

Model make_model(const Architecture& architecture, const std::string& source, DataType dtype,
                 std::int64_t sequence_length) {
  if (architecture.traced) {
    return make_traced_model(read_traced_folder(source), dtype, sequence_length);
  }
  if (architecture.image_classifier) {
    return make_image_classifier(architecture, dtype, sequence_length);
  }
  return make_language_model(architecture, dtype, sequence_length);
}

}  // namespace athanor
