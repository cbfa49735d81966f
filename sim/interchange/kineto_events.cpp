// SPDX-License-Identifier: Apache-2.0
#include "sim/interchange/kineto_events.hpp"

#include "sim/base/value_path.hpp"
#include "sim/interchange/lenient_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <istream>
#include <variant>
#include <vector>

namespace athanor {
namespace {

using nlohmann::json;

/// Number or text at a key; other values are skipped.
using Scalar = std::variant<std::int64_t, double, std::string>;

/// Follows the parser through the file: the document, its traceEvents, an event, its args.
/// It skips everything else by counting depth alone.
class EventSax final : public nlohmann::json_sax<json> {
 public:
  EventSax(std::string where, const std::function<void(const KinetoEvent&)>& visit)
      : place_(std::move(where)), visit_(visit) {}

  /// NaN is read as null. A time that is none must not become zero.
  bool null() override {
    if (in_events_ && depth_ == kEvent && (key_ == "ts" || key_ == "dur")) {
      place(key_).reject("is no number", "Was the trace written by another program?");
    }
    return true;
  }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t value) override { return scalar(std::int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return scalar(value);
  }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return true; }

  bool start_object(std::size_t /*size*/) override {
    ++depth_;
    if (depth_ == kEvent && in_events_) begin_event();
    if (depth_ == kEvent + 1 && in_events_) in_args_ = key_ == "args";
    return true;
  }
  bool end_object() override {
    if (depth_ == kEvent && in_events_) end_event();
    if (depth_ == kEvent + 1) in_args_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    ++depth_;
    if (depth_ == kList) {
      in_events_ = key_ == "traceEvents";
      in_devices_ = key_ == "deviceProperties";
      found_events_ = found_events_ || in_events_;
    }
    return true;
  }
  bool end_array() override {
    if (depth_ == kList) in_events_ = in_devices_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;  // the parser throws by itself
  }

  [[nodiscard]] std::string finish() const {
    if (!found_events_) {
      place_.reject("has no traceEvents", "Use a trace of torch.profiler (export_chrome_trace).");
    }
    return device_;
  }

 private:
  /// Depths of a list in the document and of an event in traceEvents; the document's depth is 1.
  static constexpr int kList = 2, kEvent = 3;

  [[nodiscard]] ValuePath place(const std::string& key) const {
    return place_.key("traceEvents").item(index_).key(key);
  }

  void begin_event() {
    event_ = {};
    pid_ = tid_ = "";
  }

  void end_event() {
    event_.thread = pid_ + "/" + tid_;
    visit_(event_);
    ++index_;
  }

  bool scalar(Scalar value) {
    if (in_devices_ && depth_ == kEvent && key_ == "name" && device_.empty()) {
      if (const auto* name = std::get_if<std::string>(&value)) device_ = *name;
    }
    if (!in_events_) return true;
    if (depth_ == kEvent) {
      event_scalar(std::move(value));
    } else if (depth_ == kEvent + 1 && in_args_ && key_ == "correlation") {
      event_.correlation = whole_number(value);
    }
    return true;
  }

  void event_scalar(Scalar value) {
    if (key_ == "ph") {
      event_.phase = text(std::move(value));
    } else if (key_ == "cat") {
      event_.category = text(std::move(value));
    } else if (key_ == "name") {
      event_.name = text(std::move(value));
    } else if (key_ == "pid") {
      pid_ = label(std::move(value));
    } else if (key_ == "tid") {
      tid_ = label(std::move(value));
    } else if (key_ == "ts") {
      event_.start = microseconds(value);
    } else if (key_ == "dur") {
      event_.duration = microseconds(value);
    } else if (key_ == "id" && !std::holds_alternative<std::string>(value)) {
      event_.flow = whole_number(value);
    }
  }

  std::string text(Scalar value) const {
    if (auto* given = std::get_if<std::string>(&value)) return std::move(*given);
    place(key_).reject("is no text", "Use a trace of torch.profiler as it is.");
  }

  /// Takes a process or thread, which is a number or a name such as "Spans".
  static std::string label(Scalar value) {
    if (auto* given = std::get_if<std::string>(&value)) return std::move(*given);
    if (const auto* given = std::get_if<std::int64_t>(&value)) return std::to_string(*given);
    return fmt::format("{}", std::get<double>(value));
  }

  [[nodiscard]] double microseconds(const Scalar& value) const {
    constexpr double kMax = 1e18;
    double number = -1;
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      number = static_cast<double>(*whole);
    } else if (const auto* real = std::get_if<double>(&value)) {
      number = *real;
    } else {
      place(key_).reject("is no number", "Use a trace of torch.profiler as it is.");
    }
    check_number(place(key_), number, 0, kMax);
    return number;
  }

  [[nodiscard]] std::int64_t whole_number(const Scalar& value) const {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
    place(key_).reject("is no whole number", "Use a trace of torch.profiler as it is.");
  }

  ValuePath place_;
  const std::function<void(const KinetoEvent&)>& visit_;
  int depth_ = 0;
  bool in_events_ = false, in_args_ = false, in_devices_ = false, found_events_ = false;
  std::string key_, pid_, tid_, device_;
  std::size_t index_ = 0;
  KinetoEvent event_;
};

}  // namespace

std::string read_kineto_events(std::istream& in, const std::string& where,
                               const std::function<void(const KinetoEvent&)>& visit) {
  EventSax sax(where, visit);
  parse_lenient_json(in, ValuePath(where), sax);
  return sax.finish();
}

}  // namespace athanor
