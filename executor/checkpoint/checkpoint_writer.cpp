// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_writer.hpp"

#include "executor/io/safetensors_writer.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Makes renames and new files in `folder` durable.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) {
    throw Error(fmt::format("{}: cannot sync: {}", folder.string(), std::strerror(error)));
  }
}

/// Writes this rank's file and returns its checksum.
std::uint64_t write_rank_file(const fs::path& path, const Architecture& architecture,
                              const std::vector<StateRange>& ranges) {
  std::vector<TensorEntry> entries;
  for (const StateRange& range : ranges) {
    const Unit& unit = architecture.units[static_cast<std::size_t>(range.unit)];
    for (const StatePart part : kStateParts) {
      entries.push_back({.name = range_name(unit.name, part, range.offset),
                         .type = TensorType::F32,
                         .shape = {range.elements}});
    }
  }
  SafetensorsWriter writer(path.string(), entries, {{"format", "athanor.checkpoint/1"}});
  std::uint64_t hash = kEmptyHash;
  std::vector<float> values;
  std::size_t entry = 0;
  for (const StateRange& range : ranges) {
    for (const StatePart part : kStateParts) {
      values.resize(static_cast<std::size_t>(range.elements));
      range.read(part, values);
      const auto bytes = std::as_bytes(std::span<const float>(values));
      writer.write(entries[entry++].name, bytes);
      hash = hash_bytes(bytes, hash);
    }
  }
  writer.finish();
  return hash;
}

/// Path of a name that no reader takes for a checkpoint.
fs::path hidden(const fs::path& folder, const std::string& name) { return folder / ("." + name); }

void remove_leftovers(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".step-")) fs::remove_all(entry.path());
  }
}

/// Removes a checkpoint so that no reader ever sees a part of it.
void remove_whole(const fs::path& folder, const std::string& name) {
  const fs::path old = hidden(folder, name + ".old");
  fs::rename(folder / name, old);
  fs::remove_all(old);
}

void remove_older(const fs::path& folder, int keep_last) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), std::greater<>());
  for (std::size_t i = static_cast<std::size_t>(keep_last); i < names.size(); ++i) {
    remove_whole(folder, names[i]);
  }
}

void complete(const fs::path& folder, const fs::path& partial, const CheckpointState& state,
              int keep_last) {
  write_file_atomically((partial / "state.json").string(), to_json(state));
  sync_folder(partial);
  const std::string name = checkpoint_name(state.step);
  if (fs::exists(folder / name)) remove_whole(folder, name);
  fs::rename(partial, folder / name);
  sync_folder(folder);
  remove_older(folder, keep_last);
}

}  // namespace

void write_checkpoint(const std::string& folder, CheckpointState state,
                      const Architecture& architecture, const std::vector<StateRange>& ranges,
                      int rank, int keep_last, const Exchange& exchange) {
  const fs::path partial = hidden(folder, checkpoint_name(state.step) + ".partial");
  if (rank == 0) {
    fs::create_directories(folder);
    remove_leftovers(folder);
    fs::create_directory(partial);
  }
  static_cast<void>(exchange(0));  // the folder is there
  const fs::path own = partial / rank_file_name(rank, state.world_size);
  const std::vector<std::uint64_t> checksums = exchange(write_rank_file(own, architecture, ranges));
  if (rank == 0) {
    for (int i = 0; i < state.world_size; ++i) {
      const std::string name = rank_file_name(i, state.world_size);
      state.files.push_back({name, static_cast<Bytes>(fs::file_size(partial / name)),
                             checksums[static_cast<std::size_t>(i)]});
    }
    complete(folder, partial, state, keep_last);
  }
  static_cast<void>(exchange(0));  // nobody goes on before the checkpoint counts
}

}  // namespace athanor
