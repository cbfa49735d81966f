// SPDX-License-Identifier: Apache-2.0
#include "tests/search/elixir_reference.hpp"

#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace athanor::test {
namespace {

using elixir::SearchInput;
using elixir::SearchResult;
using Groups = std::vector<std::size_t>;  // index of each chunk's first public parameter

struct Best {
  double moved = INFINITY;
  std::int64_t size = 0, blocks = 0;
};

class Reference {
 public:
  explicit Reference(const SearchInput& input) : in_(input) {
    for (int p = 0; p < static_cast<int>(in_.parameters.size()); ++p) {
      (in_.fused[static_cast<std::size_t>(p)] ? fused_ : public_).push_back(p);
    }
  }

  std::optional<SearchResult> run() {
    if (!set_capacity()) return {};
    Best best = total() <= min_bytes() / element() ? Best{0, total(), total() == 0 ? 0 : 1}
                                                   : best_of_all_sizes();
    if (std::isinf(best.moved)) return {};
    while (best.size % in_.num_gpus != 0) ++best.size;
    if (best.size * best.blocks > capacity_) return {};
    return configure(best);
  }

 private:
  [[nodiscard]] std::int64_t element() const { return in_.dtype == DataType::Float32 ? 4 : 2; }
  [[nodiscard]] std::int64_t elements(int p) const {
    return in_.parameters[static_cast<std::size_t>(p)];
  }
  [[nodiscard]] std::int64_t total() const {
    std::int64_t sum = 0;
    for (const int p : public_) sum += elements(p);
    return sum;
  }
  [[nodiscard]] std::int64_t min_bytes() const {
    std::int64_t bytes = in_.smallest_chunk;
    for (const int p : public_) {
      while (bytes < elements(p) * element()) bytes += bytes;
    }
    return bytes;
  }

  bool set_capacity() {
    const double left = static_cast<double>(in_.gpu_memory) -
                        static_cast<double>(in_.driver_memory) - static_cast<double>(in_.buffers) -
                        1.25 * static_cast<double>(in_.activations);
    const double bytes = std::floor(0.95 * left);
    if (bytes < 0) return false;
    capacity_ = static_cast<std::int64_t>(std::floor(bytes / static_cast<double>(element())));
    capacity_ -= in_.largest_module;
    for (const int p : fused_) capacity_ -= elements(p);
    return capacity_ >= 0;
  }

  /// Returns the bytes from one size to the next.
  [[nodiscard]] std::int64_t interval() const {
    std::int64_t length = 1;
    while (length < static_cast<std::int64_t>(public_.size())) length *= 2;
    const std::int64_t times = (16 << 20) / (2 * length);
    const std::int64_t gap = 3 * min_bytes() - min_bytes();
    return times > gap / 1024 ? 1024 : gap / times;
  }

  [[nodiscard]] Groups groups(std::int64_t size) const {
    Groups begins;
    std::int64_t used = size;
    for (std::size_t i = 0; i < public_.size(); ++i) {
      if (used + elements(public_[i]) > size) {
        begins.push_back(i);
        used = 0;
      }
      used += elements(public_[i]);
    }
    return begins;
  }

  [[nodiscard]] std::map<int, int> chunk_of_each(const Groups& begins) const {
    std::map<int, int> chunk_of;
    std::size_t begun = 0;
    for (std::size_t i = 0; i < public_.size(); ++i) {
      if (begun < begins.size() && begins[begun] == i) ++begun;
      chunk_of[public_[i]] = static_cast<int>(begun) - 1;
    }
    return chunk_of;
  }

  Best best_of_all_sizes() {
    const std::int64_t step = interval() / element();
    const std::int64_t rounded = capacity_ - capacity_ % step;
    std::int64_t size = min_bytes() / element();
    for (const int p : public_) size = std::max(size, elements(p));
    if (size % step != 0) size += step - size % step;
    Best best;
    for (; size <= std::min(rounded, 3 * min_bytes() / element()); size += step) {
      const Groups chunks = groups(size);
      const std::int64_t blocks =
          std::min(rounded / size - 2, static_cast<std::int64_t>(chunks.size()));
      if (blocks < 1) continue;
      const double moved = moves(chunks, blocks) * static_cast<double>(size);
      if (moved < best.moved) best = {moved, size, blocks};
    }
    return best;
  }

  /// Returns the moves, from a table where it has them: many sizes pack into equal chunks and
  /// blocks.
  double moves(const Groups& chunks, std::int64_t blocks) {
    const auto [found, is_new] = moves_.try_emplace({chunks, blocks}, 0);
    if (is_new) found->second = count_moves(chunks, blocks);
    return found->second;
  }

  double count_moves(const Groups& chunks, std::int64_t blocks) const {
    const std::map<int, int> chunk_of = chunk_of_each(chunks);
    std::vector<std::set<int>> steps;
    for (const std::vector<int>& operation : in_.trace) {
      std::set<int> used;
      for (const int p : operation) {
        if (chunk_of.contains(p)) used.insert(chunk_of.at(p));
      }
      if (!used.empty()) steps.push_back(used);
    }
    std::set<int> cache;
    int evictions = 0;
    for (std::size_t now = 0; now < steps.size(); ++now) {
      if (static_cast<std::int64_t>(steps[now].size()) > blocks) return INFINITY;
      std::set<int> wanted = cache;
      wanted.insert(steps[now].begin(), steps[now].end());
      while (static_cast<std::int64_t>(wanted.size()) > blocks) {
        wanted.erase(farthest(steps, now, cache));
        cache.erase(farthest(steps, now, cache));
        ++evictions;
      }
      cache = wanted;
    }
    return 2.0 * (evictions + static_cast<int>(cache.size()));
  }

  /// Returns the cached chunk that is not in use now and whose next use is farthest.
  static int farthest(const std::vector<std::set<int>>& steps, std::size_t now,
                      const std::set<int>& cache) {
    std::set<int> candidates;
    for (const int chunk : cache) {
      if (!steps[now].contains(chunk)) candidates.insert(chunk);
    }
    for (std::size_t next = now + 1; next < steps.size() && candidates.size() > 1; ++next) {
      for (const int chunk : steps[next]) {
        if (candidates.size() > 1) candidates.erase(chunk);
      }
    }
    return *candidates.begin();
  }

  [[nodiscard]] bool cache_comes_first() const {
    const double n = in_.num_gpus;
    const auto e = static_cast<double>(element());
    const double r = element() == 4 ? 4 : 7;
    const double c2g = in_.rates.host_to_device, g2c = in_.rates.device_to_host;
    const double i = e / c2g + e / g2c;
    const double j =
        n / r * (4 / c2g + i + e / g2c + 1 / in_.rates.host_adam - 1 / in_.rates.device_adam);
    return i > j;
  }

  [[nodiscard]] SearchResult configure(const Best& best) const {
    SearchResult result;
    result.chunk_elements = best.size;
    result.chunk_of.assign(in_.parameters.size(), -1);
    const Groups chunks = groups(best.size);
    for (const auto& [p, chunk] : chunk_of_each(chunks)) {
      result.chunk_of[static_cast<std::size_t>(p)] = chunk;
    }
    result.num_blocks = best.blocks;
    if (!cache_comes_first() && best.size > 0) {
      const double region =
          std::ceil(static_cast<double>(in_.largest_region) / static_cast<double>(best.size)) + 1;
      result.num_blocks =
          std::min(static_cast<std::int64_t>(std::max(4.0, region)) + 2, best.blocks);
    }
    std::int64_t left = capacity_ - result.num_blocks * best.size;
    const auto home = [&](std::int64_t size) {
      const std::int64_t need = (element() == 4 ? 4 : 7) * size / in_.num_gpus;
      const bool on_gpu = left >= need;
      left -= on_gpu ? need : 0;
      return on_gpu ? Home::Gpu : Home::Host;
    };
    for (std::size_t c = 0; c < chunks.size(); ++c) result.chunk_homes.push_back(home(best.size));
    for (const int p : fused_) {
      std::int64_t size = elements(p);
      while (size % in_.num_gpus != 0) ++size;
      result.fused_homes.push_back(home(size));
    }
    while (result.num_blocks < best.blocks && left >= best.size) {
      ++result.num_blocks;
      left -= best.size;
    }
    return result;
  }

  const SearchInput& in_;
  std::vector<int> public_, fused_;
  std::int64_t capacity_ = 0;
  std::map<std::pair<Groups, std::int64_t>, double> moves_;
};

}  // namespace

std::optional<SearchResult> elixir_reference(const SearchInput& input) {
  return Reference(input).run();
}

}  // namespace athanor::test
