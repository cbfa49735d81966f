// SPDX-License-Identifier: Apache-2.0
// Checks which checkpoint is taken, which is refused, and which files are never deleted.
#include "executor/checkpoint/checkpoint_folder.hpp"
#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "sim/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/checkpoint_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;
namespace fs = std::filesystem;

/// The folder of a run with whole checkpoints of steps 10, 20 and 30.
class Run {
 public:
  Run() {
    for (const int step : {10, 20, 30}) write_handful(path(), kOwnRun, step);
  }
  Run(const Run& other) { fs::copy(other.path(), path(), fs::copy_options::recursive); }
  Run& operator=(const Run&) = delete;
  ~Run() = default;
  [[nodiscard]] std::string path() const { return folder_.file("checkpoints"); }
  [[nodiscard]] fs::path step(int step) const { return fs::path(path()) / checkpoint_name(step); }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

 private:
  TemporaryFolder folder_;
};

void write(const fs::path& path, const std::string& text = "note") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_any_file(path);
  const std::size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  write(path, text.replace(place, from.size(), to));
}

const char* const kRank0 = "rank-00000-of-00002.safetensors";
const char* const kRank1 = "rank-00001-of-00002.safetensors";

struct Case {
  const char* name;
  void (*edit)(const Run& run);
  int step;             ///< that is taken; 0: refused
  const char* message;  ///< part of the refusal
};

const std::vector<Case> kCases{
    {"nothing is changed", [](const Run&) {}, 30, ""},
    {"the newest has no state", [](const Run& r) { fs::remove(r.step(30) / "state.json"); }, 0,
     "step-00000030/state.json"},
    {"the newest lacks a file", [](const Run& r) { fs::remove(r.step(30) / kRank1); }, 0,
     "rank-00001-of-00002.safetensors is missing"},
    {"a file of the newest is cut short",
     [](const Run& r) { fs::resize_file(r.step(30) / kRank0, 100); }, 0, "has 100 bytes"},
    {"a file of the newest is a link to the right content",
     [](const Run& r) {
       fs::rename(r.step(30) / kRank0, r.step(30) / "elsewhere");
       fs::create_symlink("elsewhere", r.step(30) / kRank0);
     },
     0, "is no regular file"},
    {"the state of the newest is a link",
     [](const Run& r) {
       fs::rename(r.step(30) / "state.json", r.step(30) / "elsewhere");
       fs::create_symlink("elsewhere", r.step(30) / "state.json");
     },
     0, "is no regular file"},
    {"the newest is a link to a whole one",
     [](const Run& r) {
       fs::rename(r.step(30), r.path() + "/elsewhere");
       fs::create_directory_symlink("elsewhere", r.step(30));
     },
     0, "is a link"},
    {"a byte of the newest's tensors",
     [](const Run& r) { flip_byte((r.step(30) / kRank0).string(), 3); }, 0,
     "is damaged: its checksum differs"},
    {"a name in the newest's header",
     [](const Run& r) { replace_in(r.step(30) / kRank0, "master", "mastes"); }, 0, kRank0},
    {"two tensors of the newest change their names",
     [](const Run& r) {
       replace_in(r.step(30) / kRank0, "first/first_moment@0", "first/FIRST_MOMENT@0");
       replace_in(r.step(30) / kRank0, "first/second_moment@0", "first/first_moment@00");
       replace_in(r.step(30) / kRank0, "first/FIRST_MOMENT@0", "first/secon_moment@0");
     },
     0, kRank0},
    {"another step in the newest's state",
     [](const Run& r) { replace_in(r.step(30) / "state.json", "\"step\": 30", "\"step\": 31"); }, 0,
     "its checksum differs"},
    {"another place in the data",
     [](const Run& r) { replace_in(r.step(30) / "state.json", ": 120", ": 121"); }, 0,
     "its checksum differs"},
    {"another learning rate",
     [](const Run& r) { replace_in(r.step(30) / "state.json", "0.1", "0.2"); }, 0,
     "its checksum differs"},
    {"other spaces in the state",
     [](const Run& r) { replace_in(r.step(30) / "state.json", "\"step\": 30", "\"step\":   30"); },
     30, ""},
    {"the newest is called by another step",
     [](const Run& r) { fs::rename(r.step(30), r.step(99)); }, 0, "is of step 30, not of the step"},
    {"a copy of an old one under the name of a newer step",
     [](const Run& r) { fs::copy(r.step(10), r.step(40), fs::copy_options::recursive); }, 0,
     "is of step 10"},
    {"a copy under a user's name",
     [](const Run& r) {
       fs::copy(r.step(30), r.path() + "/step-00000040-best", fs::copy_options::recursive);
       fs::copy(r.step(30), r.path() + "/step-31", fs::copy_options::recursive);
     },
     30, ""},
    {"notes under the name of a step",
     [](const Run& r) {
       write(r.step(40) / "notes.txt");
       write(r.step(50));
     },
     30, ""},
    {"an earlier one is damaged", [](const Run& r) { fs::remove(r.step(20) / "state.json"); }, 30,
     ""},
    {"later steps of another run", [](const Run& r) { write_handful(r.path(), kOtherRun, 40); }, 0,
     "is step 40 of run fedcba9876543210fedcba9876543210"},
    {"earlier steps of another run", [](const Run& r) { write_handful(r.path(), kOtherRun, 25); },
     30, ""},
    {"nothing is left",
     [](const Run& r) {
       for (const int step : {10, 20, 30}) fs::remove_all(r.step(step));
     },
     0, "holds no complete checkpoint"},
    {"the folder is a link",
     [](const Run& r) {
       fs::rename(r.path(), r.path() + "-elsewhere");
       fs::create_directory_symlink(r.path() + "-elsewhere", r.path());
     },
     0, "holds no complete checkpoint"},
};

}  // namespace

TEST_CASE("the checkpoint that is taken is the run's newest whole one, or none") {
  const Run whole;
  for (const Case& c : kCases) {
    INFO(c.name);
    const Run run(whole);  // a copy, which is not synced, takes less time
    c.edit(run);
    try {
      const ChosenCheckpoint chosen = choose_newest_checkpoint(run.path(), kOwnRun);
      const bool right = reads_as_written(chosen);
      CHECK(right);
      CHECK(chosen.state.step == c.step);
    } catch (const InputError& error) {
      INFO(error.what());
      CHECK(c.step == 0);
      CHECK(std::string(error.what()).find(c.message) != std::string::npos);
    }
  }
}

TEST_CASE("a damaged newest checkpoint is named with the one before it, which can be selected") {
  const Run run;
  flip_byte((run.step(30) / kRank1).string(), 5);
  const std::string before = "--resume " + run.step(20).string();
  try {
    static_cast<void>(reads_as_written(choose_newest_checkpoint(run.path(), kOwnRun)));
    FAIL("a damaged checkpoint was read");
  } catch (const InputError& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find((run.step(30) / kRank1).string()) != std::string::npos);
    CHECK(std::string(error.what()).find(before) != std::string::npos);
  }
  CHECK(reads_as_written(choose_checkpoint(run.step(20).string())));
  CHECK(damaged_after(run.path(), 20) == std::vector<std::string>{run.step(30).string()});
  CHECK_THROWS_AS(damaged_after(run.path(), 10), InputError);
}

TEST_CASE("without a known run, checkpoints of one run are taken and of two are refused") {
  const Run run;
  CHECK(choose_newest_checkpoint(run.path(), "").state.step == 30);
  write_handful(run.path(), kOtherRun, 5);
  CHECK_THROWS_AS(choose_newest_checkpoint(run.path(), ""), InputError);
}

TEST_CASE("keeping the last checkpoints deletes older ones of the run, and nothing else") {
  const Run run;
  write_handful(run.path(), kOtherRun, 15);
  write_handful(run.path(), kOtherRun, 50);
  fs::copy(run.step(10), run.path() + "/step-00000010-best", fs::copy_options::recursive);
  write(run.step(12) / "notes.txt");
  write(run.step(20) / "notes.txt");
  fs::copy(run.step(10), run.step(29), fs::copy_options::recursive);  // its name is wrong
  fs::remove(run.step(30) / kRank0);                                  // damaged: it does not count
  fs::create_directory_symlink(run.step(10), run.step(60));
  write_handful(run.path(), kOwnRun, 35, /*keep_last=*/1);
  CHECK(run.names() ==
        std::set<std::string>{checkpoint_name(12), checkpoint_name(15), checkpoint_name(20),
                              checkpoint_name(29), checkpoint_name(30), checkpoint_name(35),
                              checkpoint_name(50), checkpoint_name(60), "step-00000010-best"});
  CHECK(fs::exists(run.step(20) / "notes.txt"));
  CHECK_FALSE(fs::exists(run.step(20) / "state.json"));
}

TEST_CASE("what is in the way of a checkpoint is set aside") {
  const Run run;
  write(run.step(40) / "notes.txt");
  write_handful(run.path(), kOwnRun, 40);
  CHECK(choose_newest_checkpoint(run.path(), kOwnRun).state.step == 40);
  CHECK(fs::exists(run.path() + "/step-00000040.aside/notes.txt"));
}

TEST_CASE("leftovers of killed checkpoints are removed, and only they") {
  const Run run;
  const fs::path folder = run.path();
  const TemporaryFolder outside;
  write(outside.path() / "state.json");
  write(folder / ".step-00000040.partial" / kRank0);
  write(folder / ".step-00000040.partial" / "state.json.tmp.12.3");
  write(folder / ".step-00000005.old" / "state.json");
  write(folder / ".step-notes.partial" / "state.json");
  write(folder / ".step-00000007.bak" / "state.json");
  write(folder / ".step-00000008.old" / "mine.txt");
  fs::create_directory_symlink(outside.path(), folder / ".step-00000009.old");
  CHECK(remove_leftovers(run.path()).size() == 3);
  CHECK(run.names() == std::set<std::string>{checkpoint_name(8), checkpoint_name(10),
                                             checkpoint_name(20), checkpoint_name(30),
                                             ".step-notes.partial", ".step-00000007.bak",
                                             ".step-00000009.old"});
  CHECK(fs::exists(folder / "step-00000008" / "mine.txt"));
  CHECK(fs::exists(outside.path() / "state.json"));
}

TEST_CASE("checkpoints of schema 1 are still read, and never deleted") {
  const Run run;
  // Its checksums were over the tensors alone.
  replace_in(run.step(30) / "state.json", "athanor.checkpoint/3", "athanor.checkpoint/1");
  CheckpointState state = read_checkpoint_state((run.step(30) / "state.json").string());
  CHECK(state.version == 1);
  CHECK(state.run.empty());
  CHECK(state.position.samples == -1);
  CHECK(choose_newest_checkpoint(run.path(), kOtherRun).state.step == 30);
  write_handful(run.path(), kOwnRun, 40, 1);
  CHECK(run.names() == std::set<std::string>{checkpoint_name(30), checkpoint_name(40)});
}

namespace {

/// Files of the run's checkpoints.
std::vector<fs::path> files_of(const Run& run) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(run.path())) {
    if (!entry.is_directory()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string random_number(std::mt19937& random) {
  static const std::vector<std::string> kNumbers{"0",
                                                 "-1",
                                                 "7",
                                                 "9223372036854775807",
                                                 "1e99",
                                                 "2147483648",
                                                 "18446744073709551615",
                                                 "null",
                                                 "\"x\"",
                                                 "[]",
                                                 "{}",
                                                 "1.5"};
  return kNumbers[random() % kNumbers.size()];
}

/// Replaces a value of a JSON text by another one.
void edit_field(std::string& text, std::mt19937& random) {
  std::vector<std::size_t> colons;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ':') colons.push_back(i + 1);
  }
  if (colons.empty()) return;
  const std::size_t begin = colons[random() % colons.size()];
  const std::size_t end = std::min(text.find_first_of(",}\n", begin), text.size());
  text.replace(begin, end - begin, random_number(random));
}

void edit_content(const fs::path& path, std::mt19937& random) {
  std::string text = read_any_file(path);
  switch (text.empty() ? 3 : random() % 5) {
    case 0:
      text[random() % text.size()] ^= static_cast<char>(1U << (random() % 8));
      break;
    case 1:
      text.resize(random() % text.size());
      break;
    case 2:
      text.erase(random() % text.size(), 1 + random() % 16);
      break;
    case 3:
      text.insert(random() % (text.size() + 1), 1 + random() % 9, static_cast<char>(random()));
      break;
    default:
      edit_field(text, random);
  }
  write(path, text);
}

void edit(const Run& run, std::mt19937& random) {
  const std::vector<fs::path> files = files_of(run);
  if (files.empty()) return;
  const fs::path file = files[random() % files.size()];
  const fs::path other = files[random() % files.size()];
  std::error_code ignored;
  switch (random() % 8) {
    case 0:
      fs::remove(file);
      break;
    case 1:
      fs::rename(file, file.parent_path() / kRank1, ignored);
      break;
    case 2:
      fs::rename(file.parent_path(), run.step(static_cast<int>(random() % 50)), ignored);
      break;
    case 3:
      fs::copy_file(file, other, fs::copy_options::overwrite_existing, ignored);
      break;
    case 4:
      fs::remove_all(file.parent_path());
      break;
    default:
      edit_content(file, random);
  }
}

/// Reads what a resumed run would. Returns the message of a refusal.
std::string outcome_of(const Run& run, const std::string& identity) {
  try {
    const ChosenCheckpoint chosen = choose_newest_checkpoint(run.path(), identity);
    CHECK((chosen.state.run == kOwnRun || identity.empty()));
    const bool right = reads_as_written(chosen);
    CHECK(right);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("random edits of checkpoints end in the right state or in a message with a file's name") {
  constexpr int kEdits = 10000;
  const std::uint32_t seed = std::random_device()();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  const Run original;
  write_handful(original.path(), kOtherRun, 25);
  fs::remove_all(original.step(10));
  int cases = 0, refused = 0;
  for (int left = kEdits; left > 0; ++cases) {
    Run run(original);
    const int edits = std::uniform_int_distribution(1, 3)(random);
    for (int k = 0; k < edits; ++k) edit(run, random);
    left -= edits;
    const std::string message = outcome_of(run, random() % 4 == 0 ? "" : kOwnRun);
    INFO(message);
    if (message.empty()) continue;
    ++refused;
    REQUIRE(message.find(run.path()) != std::string::npos);
  }
  CHECK(refused > cases / 10);
  CHECK(refused < cases);
}
