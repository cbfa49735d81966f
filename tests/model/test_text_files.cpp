// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/model/artefact_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace athanor {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t num_files(const test::TemporaryFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
}

TEST_CASE("a file is replaced whole and no temporary file is left") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.json");
  write_file_atomically(path, "first");
  write_file_atomically(path, "second, longer");
  CHECK(read_text_file(path) == "second, longer");
  CHECK(num_files(folder) == 1);
}

TEST_CASE("a write that fails keeps the old file and leaves nothing behind") {
  const test::TemporaryFolder folder;
  fs::create_directories(folder.file("target/inside"));
  CHECK_THROWS_AS(write_file_atomically(folder.file("target"), "text"), Error);
  CHECK(num_files(folder) == 1);
  CHECK(fs::is_directory(folder.file("target/inside")));
}

TEST_CASE("a symbolic link stays and its target is replaced") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.file("target"), "old");
  fs::create_symlink("target", folder.file("link"));
  write_file_atomically(folder.file("link"), "new");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(read_text_file(folder.file("target")) == "new");
}

TEST_CASE("a missing folder is named") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("missing/a.json");
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

TEST_CASE("a file that cannot be read is bad input") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.file("large"), std::string(100'000, 'x'));
  CHECK(read_text_file(folder.file("large")).size() == 100'000);
  CHECK_THROWS_AS(read_text_file(folder.file("large"), 99'999), InputError);
  CHECK_THROWS_AS(read_text_file(folder.file("missing")), InputError);
  CHECK_THROWS_AS(read_text_file(folder.file("")), InputError);
  CHECK_THROWS_AS(read_text_file("/dev/zero", kMiB), InputError);
}

TEST_CASE("artefacts are read from files") {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.file("profile.json"), to_json(test::sample_profile()));
  write_file_atomically(folder.file("platform.json"), to_json(test::sample_platform()));
  write_file_atomically(folder.file("plan.json"), to_json(test::sample_plan()));
  CHECK(read_profile(folder.file("profile.json")).sequence_length == 128);
  CHECK(read_platform(folder.file("platform.json")).host_cores == 16);
  CHECK(read_plan(folder.file("plan.json")).name == "zero3");
  CHECK_THROWS_AS(read_plan(folder.file("profile.json")), InputError);
}

}  // namespace
}  // namespace athanor
