// SPDX-License-Identifier: Apache-2.0
// The program itself: files that the readers accept, exit codes, and an empty stdout.
#include "executor/io/file_system.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Folder that lives as long as this object.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "athanor-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Outcome {
  int exit_code = 0;
  std::string output, errors;
};

Outcome run(const Folder& folder, const std::string& arguments) {
  const std::string out = folder.file("stdout");
  const std::string err = folder.file("stderr");
  const std::string command =
      std::string(ATHANOR_BIN_DIR "/athanor-calibrate ") + arguments + " >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_text_file(out), read_text_file(err)};
}

bool mpirun_is_present() { return std::system("command -v mpirun >/dev/null") == 0; }

TEST_CASE("a quick calibration is a valid platform") {
  if (!mpirun_is_present()) {
    SKIP("mpirun was not found");
  }
  const Folder folder;
  const std::string path = folder.file("platform.json");
  const Outcome outcome = run(folder, "calibrate --backend cpu --quick --ranks 2 -o " + path);
  CAPTURE(outcome.errors);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.empty());
  const Platform platform = read_platform(path);
  CHECK(platform.backend == "cpu");
  CHECK(platform.num_devices == 2);
  CHECK(platform.all_gather.size() == 2);
  CHECK_THAT(outcome.errors, ContainsSubstring("h2d | cpu-adam: "));
  CHECK_THAT(outcome.errors, ContainsSubstring("nvme-read | nvme-write: "));
  REQUIRE(platform.shared.size() == 3);
  CHECK(platform.shared[2].name == "nvme");
  CHECK(platform.shared[2].capacity >= 1);
  CHECK(platform.shared[2].capacity <= 2);
  CHECK(platform.shares(Lane::NvmeWrite));
  CHECK(platform.file_system == file_system_of(folder.file("")));
  CHECK(platform.matmul_flops_per_second > 0);
  CHECK(platform.h2d.at(kMiB) > 0);
  CHECK(platform.provenance.source == Source::Measured);
}

TEST_CASE("a built-in model is profiled into a file") {
  const Folder folder;
  const std::string path = folder.file("profile.json");
  const Outcome outcome = run(
      folder,
      "profile --backend cpu --model gpt2-tiny --seq 16 --micro-batches 1,2 --gpus 2 -o " + path);
  CAPTURE(outcome.errors);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.output.empty());
  const Profile profile = read_profile(path);
  CHECK(profile.micro_batches().size() == 2);
  for (const UnitCost& cost : profile.costs) {
    CHECK(cost.saved_bytes >= cost.output_bytes);
    CHECK(cost.forward_keep.seconds > 0);
  }
}

TEST_CASE("bad arguments end with exit code 2 and a way out") {
  const Folder folder;
  const std::string out = " -o " + folder.file("x.json");
  const auto check = [&](const std::string& arguments, const std::string& message) {
    const Outcome outcome = run(folder, arguments);
    CAPTURE(arguments, outcome.errors);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.empty());
    CHECK_THAT(outcome.errors, ContainsSubstring(message));
  };
  check("", "subcommand");
  check("calibrate", "--output");
  check("calibrate --out " + folder.file("missing/x.json"), "no folder");
  check("calibrate -o a.json --out b.json", "--out");
  check("calibrate --gpus 0" + out, "--gpus");
  check("calibrate --backend tpu" + out, "tpu");
  check("calibrate -o " + folder.file("missing/x.json"), "no folder");
  check("calibrate --refresh missing.json" + out, "missing.json");
  check("calibrate --refresh x.json --gpus 2" + out, "--gpus");
  check("calibrate --backend cpu --refresh " ATHANOR_SOURCE_DIR "/platforms/example-cpu.json" + out,
        "without it");
  check("calibrate --backend cpu --power-bursts b.json" + out, "--power-bursts");
  check("calibrate --refresh x.json --power-bursts b.json" + out, "--power-bursts");
  check("calibrate --earlier missing.json" + out, "missing.json");
  check("calibrate --backend cpu --earlier " ATHANOR_SOURCE_DIR "/platforms/h100x1.json" + out,
        "device NVIDIA H100 80GB HBM3 instead of");
  check("calibrate --nvme " + folder.file("missing") + out, "--nvme");
  check("calibrate --nvme /proc" + out, "/proc");
  check("profile" + out, "--model");
  check("profile --model no-such-model" + out, "no-such-model");
  check("profile --model gpt2-tiny --micro-batches 1,one" + out, "one");
  check("profile --model gpt2-tiny --micro-batches 2,2" + out, "--micro-batches");
  check("profile --model gpt2-tiny --seq 100000" + out, "100000");
  check("profile --model gpt2-tiny --dtype fp8" + out, "fp8");
  check("profile --model gpt2-tiny --backend cpu --trace t.json" + out, "--trace");
  check("profile --model gpt2-tiny --no-kernels --trace t.json" + out, "--no-kernels");
}

TEST_CASE("profile refuses to measure in several processes at once") {
  const Folder folder;
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("RANK", "1", 1);
  const Outcome outcome =
      run(folder, "profile --model gpt2-tiny --backend cpu -o " + folder.file("profile.json"));
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("RANK");
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.errors, ContainsSubstring("a launcher has started 2"));
  CHECK_FALSE(std::filesystem::exists(folder.file("profile.json")));
}

TEST_CASE("without a GPU, the CUDA backend says what is missing") {
  if (std::system("test -e /dev/nvidiactl") == 0) {
    SKIP("there is a GPU");
  }
  const Folder folder;
  for (const std::string verb : {"calibrate", "profile --model gpt2-tiny"}) {
    const Outcome outcome = run(folder, verb + " --backend cuda -o " + folder.file("x.json"));
    CAPTURE(verb, outcome.errors);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.errors, ContainsSubstring("--backend cpu"));
  }
}

TEST_CASE("help and version go to stdout") {
  const Folder folder;
  CHECK_THAT(run(folder, "--help").output, ContainsSubstring("calibrate"));
  CHECK_THAT(run(folder, "--version").output, ContainsSubstring("athanor"));
  CHECK(run(folder, "profile --help").exit_code == 0);
}

}  // namespace
}  // namespace athanor
