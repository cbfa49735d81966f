// SPDX-License-Identifier: Apache-2.0
#include "sim/base/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace athanor {
namespace {

std::string simplified(std::string_view text) {
  std::string simple(text);
  for (char& c : simple) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return simple;
}

std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 100;  // the work grows with the product of the lengths
  if (given.size() > kLongest) return "";
  const std::string wanted = simplified(given);
  std::size_t fewest = 1 + std::max<std::size_t>(2, wanted.size() / 3);
  std::string nearest;
  for (const std::string& name : known) {
    const std::size_t edits = edits_between(wanted, simplified(name));
    if (edits < fewest) {
      fewest = edits;
      nearest = name;
    }
  }
  if (!nearest.empty()) return nearest;
  const auto begins_alike = [&wanted](const std::string& name) {
    constexpr std::size_t kShortest = 3;
    const std::string simple = simplified(name);
    const std::string shared = simple.substr(0, wanted.size());
    const auto letters = std::ranges::count_if(shared, [](char c) { return c != '_'; });
    return std::cmp_greater_equal(letters, kShortest) && wanted.starts_with(shared);
  };
  const auto found = std::ranges::find_if(known, begins_alike);
  return found == known.end() ? "" : *found;
}

std::string nearest_hint(std::string_view given, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const std::string nearest = nearest_name(given, known);
  return nearest.empty() ? otherwise : "Is it '" + nearest + "'?";
}

}  // namespace athanor
