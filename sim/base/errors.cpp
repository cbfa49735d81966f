// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"

#include "sim/base/error_report.hpp"
#include "sim/base/printable.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

namespace athanor {
namespace {

std::string input_message(const std::string& where, const std::string& problem,
                          const std::string& hint) {
  // A line end in a file's name would let the name write lines of its own.
  std::string message = printable(where);
  if (!where.empty()) message += ": ";
  message += printable(problem);
  if (!hint.empty()) {
    message += ". " + hint;
  }
  if (message.back() != '.' && message.back() != '?') {
    message += '.';
  }
  return message;
}

/// Throws Error where stdout cannot be written. Results go there, so a full disk is a failure.
void flush_stdout() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::cout.fail()) {
    throw Error("cannot write to the standard output; is the disk full?");
  }
}

}  // namespace

InputError::InputError(const std::string& where, const std::string& problem,
                       const std::string& hint)
    : Error(input_message(where, problem, hint), hint), where_(where) {}

InfeasibleError::InfeasibleError(const std::string& problem, const std::string& hint)
    : Error(problem + ". " + hint, hint) {}

int run_main(const std::string& program, const std::function<int()>& body) {
  const auto report = [&](const Error& error, ExitCode code) {
    return report_error({program, error.what(), error.hint(), code});
  };
  // Without this, a write beyond `ulimit -f` ends the program; with it, the write fails and is
  // named.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = body();
    flush_stdout();
    return code;
  } catch (const InfeasibleError& error) {
    return report(error, kExitInfeasible);
  } catch (const InputError& error) {
    return report(error, kExitBadInput);
  } catch (const Error& error) {
    return report(error, kExitFailed);
  } catch (const std::bad_alloc&) {
    return report(Error("out of host memory."), kExitFailed);
  } catch (const std::exception& error) {
    return report(Error(error.what()), kExitFailed);
  }
}

}  // namespace athanor
