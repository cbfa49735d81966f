// SPDX-License-Identifier: Apache-2.0
// A full disk ends in a message with a file's name, and the run goes on once there is room.
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;

/// Runs a script in a mount namespace of its own, in which "$DISK" can be a small disk.
Finished run_with_disk(const TrainFixture& fixture, const std::string& script) {
  const std::string disk = fixture.file("disk");
  fs::create_directories(disk);
  return run({"unshare", "-rm", "sh", "-c", "DISK=" + disk + "; " + script});
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += "'" + word + "' ";
  return text;
}

constexpr int kFilesEnd = 700;  ///< KiB at which the exports and checkpoints begin

/// KiB to the next size of the disk. ATHANOR_DISK_STEP makes the sweep finer.
int step_after(int kilobytes) {
  if (const char* const step = std::getenv("ATHANOR_DISK_STEP"))
    return std::max(1, std::atoi(step));
  return kilobytes < kFilesEnd ? 60 : 300;
}

}  // namespace

TEST_CASE("disks of any size end in a message, and a resumed run has the whole run's bits") {
  const std::string beside = GENERATE("off", "copy");
  const TrainFixture fixture;
  if (run_with_disk(fixture, "mount -t tmpfs -o size=64k t $DISK").exit_code != 0) {
    SKIP("no mount namespaces here");
  }
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  const std::string whole = fixture.file("whole");
  const auto command = [&](const std::string& out) {
    return with_processes(2, fixture.command(plan, 12, out));
  };
  const std::vector<std::string> often{"--checkpoint-every", "3", "--async-checkpoint", beside};
  auto reference = command(whole);
  reference.insert(reference.end(), often.begin(), often.end());
  REQUIRE(run(reference).exit_code == 0);

  const std::string out = fixture.file("disk") + "/run";
  auto small = command(out);
  small.insert(small.end(), often.begin(), often.end());
  const std::string train = quoted(small) + "--export '" + fixture.file("disk") + "/exported'";
  int ended = 0, done = 0;
  // Until the first checkpoint both are the same.
  const int smallest = beside == "off" ? 8 : kFilesEnd;
  for (int kilobytes = smallest; kilobytes <= 3000; kilobytes += step_after(kilobytes)) {
    const std::string kept = fixture.file("kept");
    fs::remove_all(kept);
    const Finished finished = run_with_disk(
        fixture,
        fmt::format("mount -t tmpfs -o size={}k t $DISK && {{ {} --quiet; code=$?; if [ $code -ne "
                    "0 ]; then mount -o remount,size=64m $DISK; if ls $DISK/run/checkpoints/step-* "
                    ">/dev/null 2>&1; then {} --quiet --resume || exit 99; else rm -rf $DISK/*; {} "
                    "--quiet || exit 98; fi; fi; cp -r $DISK/run '{}'; exit $code; }}",
                    kilobytes, train, train, train, kept));
    INFO(kilobytes << " KiB: " << finished.output);
    CHECK((finished.exit_code == 0 || finished.exit_code == 1 || finished.exit_code == 2));
    if (finished.exit_code == 0) ++done;
    if (finished.exit_code != 0) {
      ++ended;
      CHECK(finished.output.find(fixture.file("disk")) != std::string::npos);
    }
    CHECK(loss_curve(kept) == loss_curve(whole));
  }
  CHECK(ended > 0);
  CHECK(done > 0);
}
