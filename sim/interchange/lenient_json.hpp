// SPDX-License-Identifier: Apache-2.0
// JSON as profilers write it, which is not quite JSON. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"

#include <nlohmann/json.hpp>

#include <iosfwd>

namespace athanor {

/// Parses all of `in` and hands its values to `sax`, in constant memory. Beyond JSON it takes
/// quotes within strings that are not escaped (names of Python's functions), bytes that are no
/// UTF-8, control characters, unknown escapes, and commas before closing brackets. NaN and Infinity
/// become null. Throws InputError that names `place` and the byte where the text is no JSON even
/// so, and for nesting or strings beyond a limit.
void parse_lenient_json(std::istream& in, const ValuePath& place,
                        nlohmann::json_sax<nlohmann::json>& sax);

}  // namespace athanor
