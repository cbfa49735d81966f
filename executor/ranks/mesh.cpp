// SPDX-License-Identifier: Apache-2.0
#include "executor/ranks/mesh.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace athanor {
namespace {

[[noreturn]] void report_end(int peer, const char* why) {
  throw Error(fmt::format("the connection with rank {} has ended: {}", peer, why));
}

/// Whether a call on a socket that does not block has to be made again later.
bool is_for_later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Mesh::Mesh(int rank, std::vector<Descriptor> links) : rank_(rank), links_(std::move(links)) {
  const int on = 1;
  for (const Descriptor& link : links_) {
    if (!link.is_open()) continue;
    ::setsockopt(link.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
}

void Mesh::send_some(Transfer& transfer) const {
  const Descriptor& link = links_[static_cast<std::size_t>(transfer.peer)];
  const ssize_t sent = ::send(link.get(), transfer.out.data(), transfer.out.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    transfer.out = transfer.out.subspan(static_cast<std::size_t>(sent));
  } else if (!is_for_later(errno)) {
    report_end(transfer.peer, std::strerror(errno));
  }
}

void Mesh::receive_some(Transfer& transfer) const {
  const Descriptor& link = links_[static_cast<std::size_t>(transfer.peer)];
  const ssize_t received = ::recv(link.get(), transfer.in.data(), transfer.in.size(), 0);
  if (received == 0) report_end(transfer.peer, "it was closed");
  if (received > 0) {
    transfer.in = transfer.in.subspan(static_cast<std::size_t>(received));
  } else if (!is_for_later(errno)) {
    report_end(transfer.peer, std::strerror(errno));
  }
}

void Mesh::exchange(std::vector<Transfer> transfers, const std::atomic<bool>* cancelled) const {
  constexpr int kPeriodMs = 100;
  std::vector<pollfd> waits;
  while (true) {
    std::erase_if(transfers, [](const Transfer& t) { return t.out.empty() && t.in.empty(); });
    if (transfers.empty()) return;
    waits.clear();
    for (const Transfer& transfer : transfers) {
      const int wants = (transfer.out.empty() ? 0 : POLLOUT) | (transfer.in.empty() ? 0 : POLLIN);
      waits.push_back({.fd = links_[static_cast<std::size_t>(transfer.peer)].get(),
                       .events = static_cast<short>(wants),
                       .revents = 0});
    }
    ::poll(waits.data(), waits.size(), kPeriodMs);
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      throw Error("cancelled");
    }
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      // An ended connection shows in the call that uses it, with its reason.
      const bool ended = (waits[i].revents & (POLLERR | POLLHUP)) != 0;
      if (!transfers[i].out.empty() && (ended || (waits[i].revents & POLLOUT) != 0)) {
        send_some(transfers[i]);
      }
      if (!transfers[i].in.empty() && (ended || (waits[i].revents & POLLIN) != 0)) {
        receive_some(transfers[i]);
      }
    }
  }
}

}  // namespace athanor
