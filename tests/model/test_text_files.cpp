// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(fs::temp_directory_path() / ("athanor-files-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::ptrdiff_t num_files() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

TEST_CASE("a file is replaced whole and nothing is left beside it") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.json";
  write_file_atomically(path, "first");
  write_file_atomically(path, "second, longer");
  CHECK(read_text_file(path) == "second, longer");
  CHECK(folder.num_files() == 1);
}

TEST_CASE("a write that fails keeps the old file and leaves nothing behind") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "target/inside");
  CHECK_THROWS_AS(write_file_atomically(folder / "target", "text"), Error);
  CHECK(folder.num_files() == 1);
  CHECK(fs::is_directory(folder / "target/inside"));
}

TEST_CASE("a symbolic link stays and its target is replaced") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_file_atomically(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_text_file(folder / "target") == "new");
}

TEST_CASE("a missing folder is named") {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/a.json";
  try {
    write_file_atomically(path, "text");
    FAIL("written");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == path + ": cannot be written: No such file or directory.");
  }
}

TEST_CASE("a full disk is named and the device stays") {
  if (!fs::is_character_file("/dev/full")) {
    SKIP("no /dev/full here");
  }
  try {
    write_file_atomically("/dev/full", "text");
    FAIL("written");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "/dev/full: cannot be written: No space left on device.");
  }
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("what cannot be read is bad input") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "large", std::string(100'000, 'x'));
  CHECK(read_text_file(folder / "large").size() == 100'000);
  CHECK_THROWS_AS(read_text_file(folder / "large", 99'999), InputError);
  CHECK_THROWS_AS(read_text_file(folder / "missing"), InputError);
  CHECK_THROWS_AS(read_text_file(folder / ""), InputError);
  CHECK_THROWS_AS(read_text_file("/dev/zero", kMiB), InputError);
}

TEST_CASE("artefacts are read from files") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "profile.json", to_json(test::sample_profile()));
  write_file_atomically(folder / "platform.json", to_json(test::sample_platform()));
  write_file_atomically(folder / "plan.json", to_json(test::sample_plan()));
  CHECK(read_profile(folder / "profile.json").sequence_length == 128);
  CHECK(read_platform(folder / "platform.json").host_cores == 16);
  CHECK(read_plan(folder / "plan.json").name == "zero3");
  CHECK_THROWS_AS(read_plan(folder / "profile.json"), InputError);
}

}  // namespace
}  // namespace athanor
