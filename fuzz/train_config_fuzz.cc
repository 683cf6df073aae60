// SPDX-License-Identifier: Apache-2.0
// A training configuration and settings from the command line, which follow a line `%%`. Whatever they hold is refused
// in one line of bounded length, or is a configuration that can be written and reads back identical.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "train/train_config.h"

namespace {

constexpr std::string_view kSettings = "\n%%\n";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void require_one_line(std::string_view message) {
  CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "a message is one line");
  CHECK(message.size() < 4096, "a message does not repeat the file");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find(kSettings), input.size());
  const std::string_view settings = input.substr(std::min(end + kSettings.size(), input.size()));
  sluice::ReadConfig read;
  try {
    read = sluice::parse_train_config(input.substr(0, end), "run.yaml", lines_of(settings));
  } catch (const sluice::InvalidInput& error) {
    require_one_line(error.what());
    return 0;
  }
  for (const std::string& warning : read.warnings) require_one_line(warning);
  const std::string text = sluice::write_as_run(read.config);
  const sluice::ReadConfig again = sluice::parse_train_config(text, "as_run.yaml");
  CHECK(again.config == read.config, "what is written reads back identical");
  // A key that had no effect is written and has none again; foreign keys are not written.
  CHECK(again.warnings.size() <= read.warnings.size(), "what is written is warned of where it was not");
  CHECK(sluice::write_as_run(again.config) == text, "it is written the same way again");
  return 0;
}
