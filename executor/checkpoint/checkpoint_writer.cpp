// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_writer.hpp"

#include "executor/checkpoint/checkpoint_folder.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/whole_units.hpp"
#include "executor/io/output_folder.hpp"
#include "executor/io/safetensors_writer.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// A part of a range, named as checkpoints name it.
struct NamedPiece {
  std::int32_t unit = 0;  ///< index in WholeUnits::architecture()
  StridedRange range;     ///< its `at` counts in the range that this is part of
};

/// Columns of a matrix are one piece: no parameter is in two units.
std::vector<NamedPiece> pieces_of(const WholeUnits& units, const StateRange& range) {
  if (range.at.count > 1) {
    NamedPiece all{0, range.at};
    const auto first = units.pieces(range.unit, range.at.offset, 1).at(0);
    all.unit = first.unit;
    all.range.offset = first.offset;
    all.range.at = 0;
    return {all};
  }
  std::vector<NamedPiece> pieces;
  for (const auto& piece : units.pieces(range.unit, range.at.offset, range.at.run)) {
    pieces.push_back({piece.unit, {.offset = piece.offset, .run = piece.elements, .at = piece.at}});
  }
  return pieces;
}

std::vector<TensorEntry> entries_of(const WholeUnits& units,
                                    const std::vector<StateRange>& ranges) {
  std::vector<TensorEntry> entries;
  for (const StateRange& range : ranges) {
    for (const StatePart part : kStateParts) {
      for (const NamedPiece& piece : pieces_of(units, range)) {
        const Unit& unit = units.architecture().units[static_cast<std::size_t>(piece.unit)];
        entries.push_back({.name = range_name(unit.name, part, piece.range),
                           .type = TensorType::F32,
                           .shape = {piece.range.elements()}});
      }
    }
  }
  return entries;
}

void stop_where_asked(const std::stop_token& stop, const fs::path& path) {
  if (stop.stop_requested()) throw Error(path.string() + ": was given up");
}

/// Writes this rank's file and returns the checksum of all its bytes.
std::uint64_t write_rank_file(const fs::path& path, const Architecture& architecture,
                              const std::vector<StateRange>& ranges, const std::stop_token& stop) {
  const std::map<std::string, std::string> metadata{{"format", "athanor.checkpoint/3"}};
  const WholeUnits units(architecture);
  std::vector<TensorEntry> entries = entries_of(units, ranges);
  const std::string header = make_safetensors_header(entries, metadata);
  SafetensorsWriter writer(path.string(), entries, metadata);
  // Header and tensors are whole words, so their hashes chain to that of the file.
  std::uint64_t hash = hash_bytes(std::as_bytes(std::span(header)));
  std::vector<float> values;
  std::size_t entry = 0;
  for (const StateRange& range : ranges) {
    for (const StatePart part : kStateParts) {
      stop_where_asked(stop, path);
      values.resize(static_cast<std::size_t>(range.at.elements()));
      range.read(part, values);
      for (const NamedPiece& piece : pieces_of(units, range)) {
        const auto bytes = std::as_bytes(std::span<const float>(values).subspan(
            static_cast<std::size_t>(piece.range.at),
            static_cast<std::size_t>(piece.range.elements())));
        writer.write(entries[entry++].name, bytes);
        hash = hash_bytes(bytes, hash);
      }
    }
  }
  stop_where_asked(stop, path);
  writer.finish();
  return hash;
}

Bytes bytes_of(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error) throw Error(fmt::format("{}: cannot be read: {}", file.string(), error.message()));
  return static_cast<Bytes>(bytes);
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / checkpoint_name(step)).string();
}

std::string partial_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / partial_name(checkpoint_name(step))).string();
}

void begin_checkpoint(const std::string& folder, std::int64_t step) {
  make_checkpoints_folder(folder);
  static_cast<void>(remove_leftovers(folder));
  const std::string partial = partial_path(folder, step);
  std::error_code error;
  if (fs::create_directory(partial, error)) return;
  throw Error(fmt::format("{}: cannot be created: {}", partial,
                          error ? error.message() : "it is there already"));
}

std::uint64_t write_part(const CheckpointPart& part, const std::stop_token& stop) {
  const fs::path path = fs::path(partial_path(part.folder, part.state.step)) /
                        rank_file_name(part.rank, part.state.world_size);
  try {
    return write_rank_file(path, *part.architecture, part.ranges, stop);
  } catch (...) {
    std::error_code ignored;
    fs::remove(path, ignored);  // it would take up the room that is short
    throw;
  }
}

void complete_checkpoint(const CheckpointPart& part, const std::vector<std::uint64_t>& checksums) {
  CheckpointState state = part.state;
  const fs::path partial = partial_path(part.folder, state.step);
  for (int i = 0; i < state.world_size; ++i) {
    const std::string file = rank_file_name(i, state.world_size);
    state.files.push_back({file, bytes_of(partial / file), checksums[static_cast<std::size_t>(i)]});
  }
  write_file_atomically((partial / kStateFile).string(), to_json(state));
  sync_folder(partial.string());
  const fs::path name = checkpoint_path(part.folder, state.step);
  std::error_code error;
  if (fs::exists(fs::symlink_status(name, error))) set_aside(name.string());
  fs::rename(partial, name, error);
  if (error) throw Error(fmt::format("{}: cannot be created: {}", name.string(), error.message()));
  sync_folder(part.folder);
  remove_older(part.folder, state.run, part.keep_last);
}

std::string write_checkpoint(const std::string& folder, CheckpointState state,
                             const Architecture& architecture,
                             const std::vector<StateRange>& ranges, int rank, int keep_last,
                             const ExchangeValues& exchange) {
  const CheckpointPart part{folder, std::move(state), &architecture, ranges, rank, keep_last};
  if (rank == 0) begin_checkpoint(folder, part.state.step);
  static_cast<void>(exchange(0));  // the folder is there
  const std::vector<std::uint64_t> checksums = exchange(write_part(part));
  if (rank == 0) complete_checkpoint(part, checksums);
  static_cast<void>(exchange(0));  // nobody goes on before the checkpoint counts
  return checkpoint_path(folder, part.state.step);
}

Bytes checkpoint_bytes(const Architecture& architecture) {
  constexpr Bytes kPerParameter = 3 * sizeof(float);  // master and two moments
  return architecture.num_parameters() * kPerParameter;
}

}  // namespace athanor
