// SPDX-License-Identifier: Apache-2.0
// Ranks that --nproc starts meet at a port that is theirs from the start.
#include "executor/rendezvous/network_socket.hpp"
#include "tests/train/processes.hpp"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A port of this machine that another program listens on.
class TakenPort {
 public:
  TakenPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_ANY);
    socklen_t length = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(socket_, plain, length) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    REQUIRE(::getsockname(socket_, plain, &length) == 0);
    number_ = std::to_string(::ntohs(address.sin_port));
  }
  ~TakenPort() { ::close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  [[nodiscard]] const std::string& number() const noexcept { return number_; }

 private:
  int socket_;
  std::string number_;
};

std::vector<std::string> rank_zero_of_two(const std::string& port) {
  return {"env",
          "RANK=0",
          "LOCAL_RANK=0",
          "WORLD_SIZE=2",
          "MASTER_PORT=" + port,
          ATHANOR_MEETING_WORKER};
}

}  // namespace

TEST_CASE("ranks of one machine meet, job after job") {
  for (int job = 0; job < 3; ++job) {
    const Finished finished = run({ATHANOR_MEETING_WORKER, "--nproc", "4"}, 60);
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK(finished.output == "4 ranks met\n");
  }
}

TEST_CASE("the error names a port that another program has, without a backtrace") {
  const TakenPort port;
  const Finished finished = run(rank_zero_of_two(port.number()), 60);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK_THAT(finished.output, ContainsSubstring("MASTER_PORT"));
  CHECK_THAT(finished.output, ContainsSubstring(port.number()));
  CHECK_THAT(finished.output, !ContainsSubstring("frame #"));
}

TEST_CASE("rank 0 listens at MASTER_ADDR and at no other address") {
  std::uint16_t port = 0;
  {
    const auto free_port = listen_at(std::array{*resolve("127.0.0.1")});
    port = free_port.front().endpoint.port;
  }
  std::vector<std::string> command = rank_zero_of_two(std::to_string(port));
  command.insert(command.begin() + 1, {"MASTER_ADDR=127.0.0.1", "LOCAL_WORLD_SIZE=2"});
  const RunningProgram rank_zero(command);
  const auto answers = [&](const char* address) {
    return connect_to(std::array{Endpoint{*resolve(address), port}}).is_open();
  };
  for (int i = 0; i < 300 && !answers("127.0.0.1"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(answers("127.0.0.1"));
  CHECK_FALSE(answers("127.0.0.2"));
}

TEST_CASE("a MASTER_PORT that is no port is refused") {
  const Finished finished = run(rank_zero_of_two("70000"), 60);
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 2);
  CHECK_THAT(finished.output, ContainsSubstring("'70000' is no port"));
}

}  // namespace athanor::test
