// SPDX-License-Identifier: Apache-2.0
// When operations run at once, are recorded, and are issued as they were recorded. CUDA graphs
// themselves are held to eager training in tests/cuda.
#include "executor/recording/recorded_phases.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

namespace {

using namespace athanor;

/// Writes down what it is asked for.
class FakeRecorder final : public WorkRecorder {
 public:
  void run(const std::function<void()>& work) override {
    log.emplace_back("run");
    work();
  }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    log.emplace_back("record");
    work();
    return std::make_unique<Work>(*this);
  }
  std::vector<std::string> log;

 private:
  class Work final : public RecordedWork {
   public:
    explicit Work(FakeRecorder& recorder) : recorder_(recorder) {}
    void issue() override { recorder_.log.emplace_back("issue"); }
    [[nodiscard]] Bytes bytes() const override { return 100; }

   private:
    FakeRecorder& recorder_;
  };
};

}  // namespace

TEST_CASE("an operation runs, is recorded, and is then issued") {
  FakeRecorder recorder;
  RecordedPhases phases(&recorder, /*records=*/true, 2);
  int calls = 0;
  const auto work = [&] { ++calls; };
  CHECK(phases.run(0, work));
  CHECK(phases.run(1, work));
  CHECK(phases.bytes() == 0);
  CHECK(phases.run(0, work));
  CHECK(phases.run(1, work));
  CHECK(calls == 4);
  CHECK(phases.bytes() == 200);
  CHECK_FALSE(phases.run(0, work));
  CHECK_FALSE(phases.run(1, work));
  CHECK(calls == 4);
  CHECK(recorder.log == std::vector<std::string>{"run", "run", "record", "issue", "record", "issue",
                                                 "issue", "issue"});
}

TEST_CASE("operations of an evaluation run at once, in the memory of what is recorded") {
  FakeRecorder recorder;
  RecordedPhases phases(&recorder, /*records=*/false, 1);
  for (int i = 0; i < 3; ++i) CHECK(phases.run(0, [] {}));
  CHECK_FALSE(phases.records());
  CHECK(recorder.log == std::vector<std::string>{"run", "run", "run"});
}

TEST_CASE("without a recorder operations run at once") {
  RecordedPhases phases(nullptr, /*records=*/true, 1);
  int calls = 0;
  for (int i = 0; i < 3; ++i) CHECK(phases.run(0, [&] { ++calls; }));
  CHECK(calls == 3);
  CHECK_FALSE(phases.records());
}
