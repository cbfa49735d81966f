// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"

#include "sim/base/printable.hpp"

#include <fmt/core.h>

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
  if (message.back() != '.') {
    message += '.';
  }
  return message;
}

int report(const std::string& program, const std::string& message, ExitCode code) {
  fmt::print(stderr, "{}: error: {}\n", program, printable(message, LineEnds::Kept));
  return code;
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
    : Error(input_message(where, problem, hint)), where_(where) {}

int run_main(const std::string& program, const std::function<int()>& body) {
  try {
    const int code = body();
    flush_stdout();
    return code;
  } catch (const InfeasibleError& error) {
    return report(program, error.what(), kExitInfeasible);
  } catch (const InputError& error) {
    return report(program, error.what(), kExitBadInput);
  } catch (const std::bad_alloc&) {
    return report(program, "out of host memory.", kExitFailed);
  } catch (const std::exception& error) {
    return report(program, error.what(), kExitFailed);
  }
}

}  // namespace athanor
