// SPDX-License-Identifier: Apache-2.0
// The tokenizer files of a model's folder, one behind the other with a zero byte between them, in the order of kNames;
// an empty one is not there. Without a tokenizer.json or vocab.json of its own, the folder gets a small one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "fuzz/tokenizer_use.h"
#include "text/tokenizer.h"

namespace {

constexpr const char* kNames[] = {"tokenizer_config.json", "added_tokens.json", "special_tokens_map.json",
                                  "tokenizer.json",        "vocab.json",        "merges.txt"};
constexpr const char* kSmall = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, ">": 3, "ab": 4},
                                             "merges": ["a b"]}})";

std::filesystem::path make_folder() {
  const bool has_memory = std::filesystem::is_directory("/dev/shm");
  std::string name =
      (has_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) / "sluice-fuzz-XXXXXX";
  CHECK(::mkdtemp(name.data()) != nullptr, "there is a place for scratch");
  return name;
}

class Folder {
 public:
  Folder() : path_(make_folder()) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void put(const char* name, std::string_view bytes) const {
    std::filesystem::remove(path_ / name);
    if (bytes.empty()) return;
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder kFolder;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  bool has_tokens = false;
  for (const char* const name : kNames) {
    const std::size_t end = rest.find('\0');
    std::string_view bytes = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    has_tokens = has_tokens || (!bytes.empty() && (name == kNames[3] || name == kNames[4]));
    kFolder.put(name, bytes);
  }
  if (!has_tokens) kFolder.put(kNames[3], kSmall);
  try {
    const auto tokenizer = sluice::load_tokenizer(kFolder.path());
    sluice::use_tokenizer(*tokenizer, "ab <a> b<|endoftext|>  <e>\n");
    for (const auto id : {tokenizer->bos_id(), tokenizer->eos_id(), tokenizer->pad_id(), tokenizer->unk_id()}) {
      CHECK(!id || *id < tokenizer->vocab_size(), "named tokens are of the vocabulary");
    }
  } catch (const sluice::Error& error) {
    CHECK(dynamic_cast<const sluice::FormatError*>(&error) || dynamic_cast<const sluice::InvalidInput*>(&error),
          "the files are to blame");
    const std::string_view message = error.what();
    CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "a failure is one line");
    CHECK(message.size() < 4096, "a failure does not repeat the file");
  }
  return 0;
}
