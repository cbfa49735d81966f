// SPDX-License-Identifier: Apache-2.0
// The conclusions of the watchdog from messages, on a clock of the test.
#include "executor/rendezvous/process_watch.hpp"
#include "executor/watch/link_watch.hpp"
#include "executor/watch/rank_progress.hpp"
#include "executor/watch/watchdog.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <string_view>

namespace {

using namespace athanor;

RankMessage status(int rank, std::int64_t operations = 0, std::int64_t collectives = 0) {
  RankMessage message = message_of(MessageKind::Status, rank, "it is in 'forward block.1'");
  message.phase = static_cast<std::int32_t>(RankPhase::Stepping);
  message.operations = operations;
  message.collectives = collectives;
  return message;
}

std::string problem(Watchdog& dog, Seconds now) {
  const auto finding = dog.look(now);
  return finding ? finding->message : "";
}

bool names(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a silent rank is named with its process, host and work, and not before its time") {
  Watchdog dog(3);
  for (int rank = 0; rank < 3; ++rank) dog.hear(rank, status(rank), 0);
  dog.hear(0, status(0), kSilence);
  dog.hear(2, status(2), kSilence);
  CHECK(problem(dog, kSilence).empty());
  const std::string message = problem(dog, kSilence + 0.1);
  INFO(message);
  CHECK(names(message, "rank 1 (process "));
  CHECK(names(message, status(1).host_of()));
  CHECK(names(message, "not been heard from"));
  CHECK(names(message, "'forward block.1'"));
}

TEST_CASE("where a whole machine is silent, the link to it is named") {
  const auto from = [](int rank, std::string_view host) {
    RankMessage message = status(rank);
    message.host = {};
    std::ranges::copy(host, message.host.begin());
    return message;
  };
  Watchdog dog(4);
  for (const int rank : {0, 1}) dog.hear(rank, from(rank, "machine-a"), 1);
  for (const int rank : {2, 3}) dog.hear(rank, from(rank, "machine-b"), 0.5 * (rank - 2));
  for (const int rank : {0, 1}) dog.hear(rank, from(rank, "machine-a"), kSilence);
  const Seconds now = kSilence + 0.1;
  CHECK(names(problem(dog, now), "nor has any rank of machine-b, so the link to it may be cut"));
  dog.hear(3, from(3, "machine-b"), now);
  const std::string message = problem(dog, now);
  CHECK(names(message, "on machine-b) has not been heard from"));
  CHECK_FALSE(names(message, "link"));
}

TEST_CASE("a rank whose connection breaks has died; one that said goodbye has not") {
  Watchdog dog(3);
  for (int rank = 0; rank < 3; ++rank) dog.hear(rank, status(rank), 0);
  dog.release(1);
  dog.lose(1);
  CHECK(problem(dog, 100 * kSilence).starts_with("rank 0"));
  for (const int rank : {0, 2}) dog.hear(rank, status(rank), 100 * kSilence);
  CHECK(problem(dog, 100 * kSilence).empty());
  dog.lose(2);
  CHECK(names(problem(dog, 100 * kSilence), "rank 2 (process "));
}

TEST_CASE("a rank that never comes is named where it is expected") {
  Watchdog dog(2);
  CHECK(problem(dog, 10 * kArrival).empty());
  dog.expect(1, 10);
  CHECK(problem(dog, 10 + kArrival).empty());
  CHECK(problem(dog, 10.1 + kArrival).starts_with("rank 1 has not started"));
}

TEST_CASE("the rank that the others wait for is named once no operation ends") {
  Watchdog dog(2);
  dog.set_deadline(5);
  const auto hear = [&](Seconds now, std::int64_t operations) {
    dog.hear(0, status(0, operations, 7), now);
    dog.hear(1, status(1, 4, 6), now);
  };
  for (Seconds now = 0; now < 20; ++now) {  // rank 0 goes on
    hear(now, static_cast<std::int64_t>(now));
    CHECK(problem(dog, now).empty());
  }
  for (Seconds now = 20; now < 24; ++now) {
    hear(now, 19);
    CHECK(problem(dog, now).empty());
  }
  hear(25, 19);
  CHECK(names(problem(dog, 25), "rank 1 (process "));
  CHECK(names(problem(dog, 25), "keeps the others waiting"));
}

TEST_CASE("outside steps no operation has to end") {
  Watchdog dog(1);
  dog.set_deadline(5);
  for (Seconds now = 0; now < 50; ++now) {
    RankMessage message = status(0);
    message.phase = static_cast<std::int32_t>(RankPhase::BetweenSteps);
    dog.hear(0, message, now);
    CHECK(problem(dog, now).empty());
  }
}

TEST_CASE("a link is said to be slow once, after it has been slow for a while") {
  LinkWatch watch;
  const auto look = [&](Seconds round_trip, Seconds now) {
    return watch.look("machine-b", round_trip, now).value_or("");
  };
  CHECK(look(2 * kSlowRoundTrip, 0).empty());
  CHECK(look(kSlowRoundTrip / 2, kSlowFor - 1).empty());  // it was busy
  CHECK(look(2 * kSlowRoundTrip, kSlowFor).empty());
  CHECK(look(2 * kSlowRoundTrip, 2 * kSlowFor - 1.1).empty());
  CHECK(look(2 * kSlowRoundTrip, 2 * kSlowFor) ==
        "the link to machine-b is slow: a message takes 200 ms there and back");
  CHECK(look(2 * kSlowRoundTrip, 3 * kSlowFor).empty());
  CHECK_FALSE(watch.look("machine-c", 2 * kSlowRoundTrip, 3 * kSlowFor));
  CHECK(watch.look("machine-c", 2 * kSlowRoundTrip, 4 * kSlowFor));
}
