// SPDX-License-Identifier: Apache-2.0
// usage: slow_link A B SECONDS
// Carries frames between two network interfaces, those from A to B late by SECONDS. It stands in
// for `tc netem`, which many kernels lack. It runs until it is killed.
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// Sets an option of packet sockets; see packet(7).
template <typename Value>
void set_option(int socket, int option, const Value& value) {
  if (::setsockopt(socket, SOL_PACKET, option, &value, sizeof value) == 0) return;
  throw std::runtime_error(fmt::format("packet option {}: {}", option, std::strerror(errno)));
}

/// Returns a socket that receives and sends whole frames. Each frame has a header before it that
/// says what of it the sender left to the interface: its checksum, its division into segments.
int open_interface(const char* name) {
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, ::htons(ETH_P_ALL));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = ::htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name));
  if (socket < 0 || address.sll_ifindex == 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(fmt::format("{}: {}", name, std::strerror(errno)));
  }
  packet_mreq everything{};
  everything.mr_ifindex = address.sll_ifindex;
  everything.mr_type = PACKET_MR_PROMISC;
  set_option(socket, PACKET_ADD_MEMBERSHIP, everything);
  set_option(socket, PACKET_VNET_HDR, 1);
  set_option(socket, PACKET_IGNORE_OUTGOING, 1);
  return socket;
}

/// One direction.
class Direction {
 public:
  Direction(int from, int to, Clock::duration delay) : from_(from), to_(to), delay_(delay) {}

  void take_frames() {
    std::array<char, 1 << 17> frame{};
    while (true) {
      const ssize_t bytes = ::recv(from_, frame.data(), frame.size(), 0);
      if (bytes <= 0) return;
      frames_.push_back({Clock::now() + delay_, {frame.data(), frame.data() + bytes}});
    }
  }
  void pass_on_what_is_due() {
    for (; !frames_.empty() && frames_.front().due <= Clock::now(); frames_.pop_front()) {
      const std::vector<char>& bytes = frames_.front().bytes;
      // A frame that does not go through is lost, as on a real link.
      [[maybe_unused]] const auto sent = ::send(to_, bytes.data(), bytes.size(), 0);
    }
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  int from_, to_;
  Clock::duration delay_;
  std::deque<Frame> frames_;
};

void carry(const char* a, const char* b, double seconds) {
  constexpr int kPeriodMs = 1;
  const int socket_a = open_interface(a), socket_b = open_interface(b);
  const auto delay =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Direction there(socket_a, socket_b, delay);
  Direction back(socket_b, socket_a, {});
  std::array<pollfd, 2> ready{{{.fd = socket_a, .events = POLLIN, .revents = 0},
                               {.fd = socket_b, .events = POLLIN, .revents = 0}}};
  while (true) {
    ::poll(ready.data(), ready.size(), kPeriodMs);
    for (Direction* direction : {&there, &back}) {
      direction->take_frames();
      direction->pass_on_what_is_due();
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: slow_link A B SECONDS");
  carry(argv[1], argv[2], std::strtod(argv[3], nullptr));
} catch (const std::exception& error) {
  fmt::print(stderr, "slow_link: {}\n", error.what());
  return 1;
}
