// SPDX-License-Identifier: Apache-2.0
// Broken safetensors files are refused with the file, the tensor and the problem.
#include "executor/io/safetensors_reader.hpp"
#include "sim/base/errors.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

struct Broken {
  const char* json;
  std::size_t data_bytes;
  const char* message;
};

std::string file_of(const Broken& broken) {
  const std::string json = broken.json;
  return test::raw(static_cast<std::uint64_t>(json.size())) + json +
         std::string(broken.data_bytes, '\0');
}

TEST_CASE("a broken safetensors header is refused") {
  const Broken broken = GENERATE(
      Broken{"", 0, "f:"}, Broken{"{", 0, "f:"}, Broken{"[]", 0, "expected an object"},
      Broken{"\xff\xfe", 0, "f:"}, Broken{"{} x", 0, "f:"}, Broken{R"({"a":1})", 4, "f:a"},
      Broken{R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "dtype"},
      Broken{R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "shape"},
      Broken{R"({"a":{"dtype":"F32","shape":[1]}})", 4, "data_offsets"},
      Broken{R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown type 'F31'"},
      Broken{R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 4, "a.dtype"},
      Broken{R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "a.shape"},
      Broken{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "a.shape[0]"},
      Broken{R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "a.shape[0]"},
      Broken{R"({"a":{"dtype":"F32","shape":[9999999999999999999],"data_offsets":[0,4]}})", 4,
             "a.shape[0]"},
      Broken{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
             "more elements"},
      Broken{R"({"a":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}})", 4, "f:"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "a begin and an end"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
             "a begin and an end"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "data_offsets[1]"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4, "data_offsets[0]"},
      Broken{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
             "4 bytes for a tensor of 8"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "a.x"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begins at byte 4"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
             4, "f:b"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
             8, "a"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "3 bytes of data"},
      Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "5 bytes of data"},
      Broken{R"({"__metadata__":{"a":1}})", 0, "__metadata__.a"},
      Broken{R"({"__metadata__":[]})", 0, "__metadata__"});
  CAPTURE(broken.json);
  const std::string file = file_of(broken);
  CHECK_THROWS_MATCHES(parse_safetensors(test::as_bytes(file), "f"), InputError,
                       MessageMatches(ContainsSubstring(broken.message)));
}

TEST_CASE("a file that ends anywhere in the middle is refused") {
  const std::string file =
      file_of({R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, ""});
  CHECK_NOTHROW(parse_safetensors(test::as_bytes(file), "f"));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse_safetensors(test::as_bytes(file.substr(0, size)), "f"), InputError);
  }
}

TEST_CASE("an impossible header length is refused") {
  const std::string huge = test::raw(~std::uint64_t{0}) + "{}";
  CHECK_THROWS_AS(parse_safetensors(test::as_bytes(huge), "f"), InputError);
}

TEST_CASE("deeply nested JSON is refused, not a stack overflow") {
  const std::string json(200'000, '[');
  const std::string file = test::raw(static_cast<std::uint64_t>(json.size())) + json;
  CHECK_THROWS_AS(parse_safetensors(test::as_bytes(file), "f"), InputError);
}

TEST_CASE("a path that is no readable file is refused") {
  const test::Folder folder;
  CHECK_THROWS_AS(SafetensorsReader(folder / "missing"), InputError);
  CHECK_THROWS_AS(SafetensorsReader(folder / "."), InputError);
  CHECK_THROWS_AS(SafetensorsReader(folder.write("empty", "")), InputError);
}

}  // namespace
}  // namespace athanor
