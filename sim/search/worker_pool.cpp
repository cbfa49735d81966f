// SPDX-License-Identifier: Apache-2.0
#include "sim/search/worker_pool.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

namespace athanor {
namespace {

/// Message from a worker: the result, or why there is none.
struct Reply {
  JobResult result;
  bool failed = false;
  std::array<char, 1024> message{};
};

template <typename T>
bool read_all(int channel, T& value) {
  auto* place = reinterpret_cast<char*>(&value);
  for (std::size_t left = sizeof(T); left > 0;) {
    const ssize_t count = recv(channel, place, left, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    place += count;
    left -= static_cast<std::size_t>(count);
  }
  return true;
}

/// Returns false, without a signal, where the other side has died.
template <typename T>
bool write_all(int channel, const T& value) {
  const auto* place = reinterpret_cast<const char*>(&value);
  for (std::size_t left = sizeof(T); left > 0;) {
    const ssize_t count = send(channel, place, left, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    place += count;
    left -= static_cast<std::size_t>(count);
  }
  return true;
}

void copy_text(std::array<char, 1024>& to, const char* text) {
  std::strncpy(to.data(), text, to.size() - 1);
}

}  // namespace

WorkerPool::WorkerPool(int workers, std::function<JobResult(const Job&)> work)
    : work_(std::move(work)), workers_(static_cast<std::size_t>(std::max(1, workers))) {
  try {
    for (Worker& worker : workers_) start(worker);
  } catch (...) {
    for (Worker& worker : workers_) stop(worker);
    throw;
  }
}

WorkerPool::~WorkerPool() {
  for (Worker& worker : workers_) stop(worker);
}

void WorkerPool::start(Worker& worker) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) {
    throw Error(fmt::format("no socket for a worker process: {}", std::strerror(errno)));
  }
  // Otherwise the copy would write buffered output, too.
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    // A worker that held the socket of another would keep it alive after this process has died.
    for (const Worker& other : workers_) {
      if (other.channel >= 0) close(other.channel);
    }
    serve(ends[1]);
  }
  close(ends[1]);
  worker = {process, ends[0], 0};
  if (process < 0) {
    throw Error(fmt::format("no worker process could be started: {}", std::strerror(errno)));
  }
}

/// A worker ends when there is nobody left to write to it.
void WorkerPool::stop(Worker& worker) noexcept {
  if (worker.channel >= 0) close(worker.channel);
  if (worker.process > 0) waitpid(worker.process, nullptr, 0);
  worker = {};
}

void WorkerPool::serve(int channel) const {
  Job job;
  while (read_all(channel, job)) {
    Reply reply;
    try {
      reply.result = work_(job);
    } catch (const std::exception& error) {
      reply.failed = true;
      copy_text(reply.message, error.what());
    }
    if (!write_all(channel, reply)) break;
  }
  _exit(0);
}

JobResult WorkerPool::receive(Worker& worker) {
  Reply reply;
  if (!read_all(worker.channel, reply)) {
    throw Error("a worker process of the search died; is there enough memory?");
  }
  if (reply.failed) throw Error(reply.message.data());
  return reply.result;
}

std::vector<JobResult> WorkerPool::run(std::span<const Job> jobs) {
  for (Worker& worker : workers_) {
    if (worker.done < kJobsPerProcess) continue;
    stop(worker);
    start(worker);
  }
  // So many jobs fit into the sockets. Results are read in the order of the jobs.
  constexpr std::size_t kJobsInSockets = 32;
  std::vector<JobResult> results;
  for (std::size_t begin = 0; begin < jobs.size(); begin += kJobsInSockets) {
    const auto round = jobs.subspan(begin, std::min(kJobsInSockets, jobs.size() - begin));
    for (std::size_t i = 0; i < round.size(); ++i) {
      Worker& worker = workers_[i % workers_.size()];
      ++worker.done;
      if (!write_all(worker.channel, round[i])) {
        throw Error("a worker process of the search died; is there enough memory?");
      }
    }
    for (std::size_t i = 0; i < round.size(); ++i) {
      results.push_back(receive(workers_[i % workers_.size()]));
    }
  }
  return results;
}

}  // namespace athanor
