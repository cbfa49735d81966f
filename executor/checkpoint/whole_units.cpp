// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/whole_units.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace athanor {
namespace {

using Piece = WholeUnits::Piece;

/// Returns every parameter of `architecture` by name, with the padding behind it. `at` stays 0.
std::map<std::string, Piece> parameters_by_name(const Architecture& architecture) {
  std::map<std::string, Piece> parameters;
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    const Unit& unit = architecture.units[u];
    std::int64_t end = 0;
    const std::vector<std::int64_t> offsets = parameter_offsets(unit, end);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const std::int64_t next = i + 1 < offsets.size() ? offsets[i + 1] : end;
      parameters[unit.parameters[i].name] = {static_cast<std::int32_t>(u), offsets[i],
                                             next - offsets[i], 0};
    }
  }
  return parameters;
}

/// Appends `piece`, or makes the last one longer where it goes on in both units.
void append(std::vector<Piece>& pieces, const Piece& piece) {
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    if (last.unit == piece.unit && last.offset + last.elements == piece.offset &&
        last.at + last.elements == piece.at) {
      last.elements += piece.elements;
      return;
    }
  }
  pieces.push_back(piece);
}

}  // namespace

WholeUnits::WholeUnits(const Architecture& architecture)
    : whole_(with_blocks(architecture, Blocks::Whole)) {
  if (blocks_of(architecture) == Blocks::Whole) return;
  const std::map<std::string, Piece> parameters = parameters_by_name(whole_);
  for (const Unit& unit : architecture.units) {
    std::vector<Piece>& pieces = pieces_.emplace_back();
    std::int64_t end = 0;
    const std::vector<std::int64_t> offsets = parameter_offsets(unit, end);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      Piece piece = parameters.at(unit.parameters[i].name);
      piece.at = offsets[i];
      append(pieces, piece);
    }
  }
}

std::vector<Piece> WholeUnits::pieces(std::int32_t unit, std::int64_t offset,
                                      std::int64_t elements) const {
  if (pieces_.empty()) return {{unit, offset, elements, 0}};
  std::vector<Piece> pieces;
  for (const Piece& piece : pieces_.at(static_cast<std::size_t>(unit))) {
    const std::int64_t begin = std::max(offset, piece.at);
    const std::int64_t end = std::min(offset + elements, piece.at + piece.elements);
    if (begin >= end) continue;
    pieces.push_back({piece.unit, piece.offset + begin - piece.at, end - begin, begin - offset});
  }
  return pieces;
}

}  // namespace athanor
