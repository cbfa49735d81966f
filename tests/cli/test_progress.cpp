// SPDX-License-Identifier: Apache-2.0
// Progress and the time that is left, on a clock that the tests move.
#include "cli/common/memory_progress.hpp"
#include "cli/common/progress_line.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace athanor::cli {
namespace {

using Catch::Approx;

TEST_CASE("the time left is that of the rest at the pace so far") {
  TimeLeft left;
  left.note(100, 0);
  left.note(130, 0.25);
  CHECK(left.left() == Approx(90));
  left.note(150, 0.5);
  CHECK(left.left() == Approx(50));
  left.note(200, 1);
  CHECK(left.left() == Approx(0));
}

TEST_CASE("what was done before counting began says nothing of the pace") {
  TimeLeft left;
  left.note(0, 0.5);
  left.note(10, 0.6);
  CHECK(left.left() == Approx(40));
}

TEST_CASE("nothing is estimated in the first two seconds, or from nothing") {
  TimeLeft left;
  CHECK_FALSE(left.left());
  left.note(0, 0);
  left.note(1.9, 0.5);
  CHECK_FALSE(left.left());
  left.note(2, 0.5);
  CHECK(left.left() == Approx(2));
  TimeLeft idle;
  idle.note(0, 0.5);
  idle.note(60, 0.5);
  CHECK_FALSE(idle.left());
}

TEST_CASE("a time that is left is written as people say it") {
  CHECK(time_left_text(0) == "0 s left");
  CHECK(time_left_text(0.2) == "1 s left");
  CHECK(time_left_text(119) == "119 s left");
  CHECK(time_left_text(120) == "2 min left");
  CHECK(time_left_text(149) == "2 min left");
  CHECK(time_left_text(150) == "3 min left");
  CHECK(time_left_text(7500) == "2 h 5 min left");
  CHECK(time_left_text(3 * 86400.0 + 4 * 3600) == "3 d 4 h left");
  CHECK(time_left_text(1e300) == "11574 d 1 h left");
}

TEST_CASE("progress says as much as is known") {
  CHECK(progress_text("bounding", 0, 0, std::nullopt) == "bounding");
  CHECK(progress_text("bounding", 1, 3, std::nullopt) == "bounding 33 %");
  CHECK(progress_text("bounding", 3, 3, 0) == "bounding 100 %, 0 s left");
  CHECK(progress_text("bounding", 299, 300, 12) == "bounding 99 %, 12 s left");
}

/// A line whose clock the test moves, and what it has written.
struct Screen {
  explicit Screen(bool is_terminal, bool is_shown = true)
      : line({is_shown, is_terminal, [this] { return time; },
              [this](const std::string& text) { written += text; }}) {}
  std::string take() { return std::exchange(written, ""); }

  Seconds time = 1000;
  std::string written;
  ProgressLine line;
};

TEST_CASE("a terminal has one line, rewritten ten times a second at most, and cleared") {
  Screen screen(true);
  screen.line.update("copying", 0, 10);
  CHECK(screen.take() == "\r\033[Kcopying 0 %");
  screen.time += 0.05;
  screen.line.update("copying", 1, 10);
  CHECK(screen.take().empty());
  screen.time += 4.95;
  screen.line.update("copying", 5, 10);
  CHECK(screen.take() == "\r\033[Kcopying 50 %, 5 s left");
  screen.line.clear();
  CHECK(screen.take() == "\r\033[K");
  screen.line.clear();
  CHECK(screen.take().empty());
}

TEST_CASE("elsewhere a line is added every half minute") {
  Screen screen(false);
  screen.line.update("copying", 0, 100);
  screen.time += 29;
  screen.line.update("copying", 10, 100);
  CHECK(screen.take().empty());
  screen.time += 1;
  screen.line.update("copying", 10, 100);
  CHECK(screen.take() == "copying 10 %, 5 min left\n");
  screen.time += 29;
  screen.line.update("copying", 20, 100);
  screen.line.clear();
  CHECK(screen.take().empty());
}

TEST_CASE("stages that are said have a line each where lines are added") {
  std::string written;
  Seconds time = 0;
  ProgressLine line(
      {true, false, [&] { return time; }, [&](const std::string& text) { written += text; }},
      ProgressLine::Stages::Said);
  line.update("copies", 0, 100);
  time += 10;
  line.update("copies", 10, 100);
  line.update("updates", 50, 100);
  CHECK(written == "copies 0 %\nupdates 50 %, 10 s left\n");
}

TEST_CASE("parts of one job share an estimate, and a job that begins has its own") {
  Screen screen(true);
  screen.line.update("copies", 0, 100);
  screen.time += 10;
  screen.line.update("updates", 20, 100);
  CHECK(screen.take() == "\r\033[Kcopies 0 %\r\033[Kupdates 20 %, 40 s left");
  screen.time += 10;
  screen.line.update("training", 0, 100);
  CHECK(screen.take() == "\r\033[Ktraining 0 %");
  screen.time += 10;
  screen.line.update("training", 50, 100);
  CHECK(screen.take() == "\r\033[Ktraining 50 %, 10 s left");
}

TEST_CASE("memory that is reserved shows by what has come into memory") {
  std::atomic<Bytes> resident = 100;
  std::mutex mutex;
  std::string written;
  const auto has = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    return written.find(text) != std::string::npos;
  };
  Seconds time = 0;
  {
    const MemoryProgress progress(1000,
                                  {true, true, [&] { return time += 1; },
                                   [&](const std::string& text) {
                                     const std::lock_guard lock(mutex);
                                     written += text;
                                   }},
                                  [&] { return resident.load(); });
    resident = 600;
    while (!has("reserving memory 50 %")) std::this_thread::yield();
    resident = 9000;
    while (!has("reserving memory 100 %")) std::this_thread::yield();
  }
  CHECK(written.ends_with("\r\033[K"));
  CHECK(resident_bytes() > 0);
}

TEST_CASE("a quiet line writes nothing") {
  Screen screen(true, false);
  screen.line.callback()("copying", 0, 10);
  screen.time += 60;
  screen.line.update("copying", 5, 10);
  screen.line.clear();
  CHECK(screen.written.empty());
}

}  // namespace
}  // namespace athanor::cli
