// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/packing.hpp"

#include <algorithm>

namespace athanor {

bool Packing::is_divided() const {
  return std::any_of(document_starts.begin(), document_starts.end(),
                     [](const auto& starts) { return starts.size() > 1; });
}

std::vector<Document> documents_of(const std::optional<Packing>& packing, std::int64_t batch,
                                   std::int64_t sequence) {
  std::vector<Document> documents;
  const bool divided = packing && packing->is_divided();
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    const std::vector<std::int64_t> whole{0};
    const std::vector<std::int64_t>& starts =
        divided ? packing->document_starts[static_cast<std::size_t>(sample)] : whole;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      documents.push_back({sample, starts[i], i + 1 < starts.size() ? starts[i + 1] : sequence});
    }
  }
  return documents;
}

}  // namespace athanor
