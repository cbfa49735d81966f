// SPDX-License-Identifier: Apache-2.0
// Checks the files and keys that an export keeps of its source, and the places that it refuses.
#include "executor/io/export_source.hpp"
#include "executor/io/hf_folder_writer.hpp"
#include "executor/io/mapped_file.hpp"
#include "executor/io/output_folder.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/language_models.hpp"
#include "tests/io/temporary_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using test::Folder;

const LanguageModelConfig& config() {
  static const LanguageModelConfig tiny = *builtin_config("gpt2-tiny");
  return tiny;
}

Architecture model() { return make_architecture("gpt2-tiny", config()); }

TEST_CASE("the exported config.json has every key of its source") {
  for (const auto& [extra, type_key] : std::vector<std::pair<std::string, std::string>>{
           {R"("eos_token_id": 5, "bos_token_id": 1, "pad_token_id": 0)", "torch_dtype"},
           {R"("eos_token_id": [5, 6, 7], "pad_token_id": null)", "torch_dtype"},
           {R"("dtype": "float16", "transformers_version": "5.0")", "dtype"},
           {R"("torch_dtype": "float16", "id2label": {"0": "x"}, "auto_map": {"a": [1, null]})",
            "torch_dtype"},
           {R"("my": {"own": [1.5, "\u00e9"]}, "architectures": ["Mine"])", "torch_dtype"}}) {
    INFO(extra);
    const Folder folder;
    const std::string base = write_hf_config(config(), DataType::Float32);
    nlohmann::json source = nlohmann::json::parse(base);
    source.erase("torch_dtype");
    source.update(nlohmann::json::parse("{" + extra + "}"));
    folder.write("config.json", source.dump());
    const auto exported = nlohmann::json::parse(
        exported_config(read_export_source(folder / "config.json"), model(), DataType::BFloat16));
    CHECK(exported.at(type_key) == "bfloat16");
    for (const auto& [key, value] : source.items()) {
      INFO(key);
      if (key != type_key) CHECK(exported.at(key) == value);
    }
    const std::string where = folder.write("again.json", exported.dump());
    CHECK(read_hf_config(where).hidden_size == config().hidden_size);
  }
  CHECK(exported_config(read_export_source("gpt2-tiny"), model(), DataType::Float32) ==
        write_hf_config(config(), DataType::Float32));
}

TEST_CASE("the tokenizer and the settings of generation travel, and nothing else does") {
  const Folder folder;
  const std::set<std::string> kept{"tokenizer.json",
                                   "tokenizer_config.json",
                                   "tokenizer.model",
                                   "vocab.json",
                                   "merges.txt",
                                   "special_tokens_map.json",
                                   "added_tokens.json",
                                   "generation_config.json",
                                   "chat_template.jinja",
                                   "qwen.tiktoken",
                                   "spiece.model",
                                   "vocab.txt",
                                   "preprocessor_config.json",
                                   "LICENSE"};
  folder.write("config.json", write_hf_config(config(), DataType::Float32));
  fs::create_directory(folder / "blobs");
  folder.write("blobs/1a2b", "linked");
  for (const std::string& name : kept) folder.write(name, name);
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "optimizer.pt", "notes.txt",
                           "model.safetensors.index.json", "training_args.bin", "tokenizer.pt"}) {
    folder.write(name, "no");
  }
  fs::create_directory(folder / "tokenizer_cache");
  fs::create_directory(folder / "additional_chat_templates");
  folder.write("additional_chat_templates/tool.jinja", "tool");
  fs::remove(folder / "vocab.txt");
  fs::create_symlink("blobs/1a2b", folder / "vocab.txt");  // as download caches do
  const ExportSource source = read_export_source(folder / ".");
  fs::create_directory(folder / "out");
  copy_companions(source, folder / "out");
  std::set<std::string> copied;
  for (const auto& entry : fs::directory_iterator(folder / "out")) {
    if (entry.is_directory()) continue;
    copied.insert(entry.path().filename().string());
    CHECK_FALSE(entry.is_symlink());
  }
  CHECK(copied == kept);
  CHECK(read_text_file(folder / "out/vocab.txt") == "linked");
  CHECK(read_text_file(folder / "out/additional_chat_templates/tool.jinja") == "tool");
}

struct Place {
  const char* name;
  void (*make)(const Folder& folder);
  const char* message;  ///< empty: it can be used
};

TEST_CASE("a place for an export is checked before it is needed") {
  const std::vector<Place> places{
      {"out", [](const Folder&) {}, ""},
      {"new/folders/out", [](const Folder&) {}, ""},
      {"out/", [](const Folder& f) { fs::create_directory(f / "out"); }, ""},
      {"out",
       [](const Folder& f) {
         fs::create_directory(f / "out");
         f.write("out/precious", "");
       },
       "exists already"},
      {"out", [](const Folder& f) { f.write("out", ""); }, "exists already"},
      {"out",
       [](const Folder& f) {
         fs::create_directory(f / "empty");
         fs::create_directory_symlink("empty", f / "out");
       },
       "is a link"},
      {"out", [](const Folder& f) { fs::create_symlink("nowhere", f / "out"); }, "is a link"},
      {"file/out", [](const Folder& f) { f.write("file", ""); }, "is no folder"},
  };
  for (const Place& place : places) {
    const Folder folder;
    INFO(place.name << " " << place.message);
    place.make(folder);
    const std::string target = folder / place.name;
    if (*place.message == '\0') {
      CHECK_NOTHROW(check_export_folder("--export", target));
      prepare_export_folder(target);
      StagingFolder staging(target);
      staging.publish();
      CHECK(fs::is_directory(target));
    } else {
      CHECK_THROWS_MATCHES(
          check_export_folder("--export", target), InputError,
          MessageMatches(ContainsSubstring(place.message) && ContainsSubstring("--export:")));
    }
  }
  CHECK_THROWS_MATCHES(check_export_folder("--export", "/proc"), InputError,
                       MessageMatches(ContainsSubstring("exists already")));
}

TEST_CASE("staging folders that killed exports left are removed, and only they") {
  const Folder folder;
  const std::string name = folder / ".out.athanor-export-";
  const auto make = [&](const std::string& path) {
    fs::create_directory(path);
    fs::create_directory(path + "/additional_chat_templates");
    folder.write(fs::path(path).filename().string() + "/config.json", "{}");
  };
  make(name + "abc123");
  make(name + "abc12");                           // no name that an export gives
  make(folder / ".other.athanor-export-abc123");  // belongs to another target
  make(name + "linked");
  fs::create_symlink("elsewhere", name + "linked/mine");
  make(name + "locked");
  const int lock = ::open((name + "locked").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  prepare_export_folder(folder / "out");
  CHECK_FALSE(fs::exists(name + "abc123"));
  for (const std::string& kept : {name + "abc12", folder / ".other.athanor-export-abc123",
                                  name + "linked", name + "locked"}) {
    INFO(kept);
    CHECK(fs::exists(kept + "/config.json"));
  }
  ::close(lock);
}

TEST_CASE("too little room is found before it is needed, summed over what goes to a disk") {
  const Folder folder;
  const Bytes much = Bytes{1} << 60;
  CHECK_NOTHROW(check_room({{"--output", folder / "a", "a checkpoint", 1000}}, "Make room."));
  CHECK_THROWS_MATCHES(check_room({{"--output", folder / "a", "a checkpoint", much / 2},
                                   {"--export", folder / "b/c", "the exported weights", much}},
                                  "Make room."),
                       InputError,
                       MessageMatches(ContainsSubstring("a checkpoint (512 PiB") ||
                                      ContainsSubstring("too little")));
}

TEST_CASE("a file that shrinks while it is read is an error with its name") {
  const Folder folder;
  const MappedFile file(folder.write("data", std::string(10000, 'x')));
  std::vector<std::byte> bytes(100);
  CHECK_NOTHROW(file.read(9900, bytes));
  fs::resize_file(folder / "data", 9950);
  CHECK_THROWS_MATCHES(
      file.read(9900, bytes), InputError,
      MessageMatches(ContainsSubstring(folder / "data") && ContainsSubstring("has shrunk")));
  CHECK_NOTHROW(file.read(100, bytes));
}

}  // namespace
}  // namespace athanor
