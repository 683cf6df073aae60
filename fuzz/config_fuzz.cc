// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json: whatever they hold, every way of asking for a value gives one or says in one
// line what is wrong.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "format/hf_config.h"
#include "format/json_text.h"
#include "format/model_folder.h"

namespace {

template <typename Ask>
void ask(Ask ask_for) {
  try {
    ask_for();
  } catch (const sluice::FormatError& error) {
    const std::string_view message = error.what();
    CHECK(!message.empty() && message.find('\n') == std::string_view::npos, "a failure is one line");
    CHECK(message.size() < 4096, "a failure does not repeat the file");
  }
}

void ask_everything(const sluice::ConfigReader& config, int depth) {
  ask([&] { sluice::parse_generation_config(config); });
  ask([&] { sluice::config_model_type(config); });
  ask([&] { sluice::config_architectures(config); });
  ask([&] { sluice::config_dtype(config); });
  for (const auto& item : config.json().items()) {
    const std::string& key = item.key();
    ask([&] { config.require_int(key, -10, 10); });
    ask([&] { config.int_or(key, 1); });
    ask([&] { config.require_real(key); });
    ask([&] { config.real_or(key, 1, {.min = 0, .max = 1}); });
    ask([&] { config.require_text(key); });
    ask([&] { config.require_flag(key); });
    ask([&] { config.find_ints(key); });
    ask([&] { config.find_reals(key); });
    ask([&] { config.find_texts(key); });
    ask([&] { config.find_int_or_ints(key, {.min = 0}); });
    ask([&] {
      if (depth < 3) ask_everything(config.require_object(key), depth + 1);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ask([&] { sluice::parse_json(text, "fuzz", sluice::DuplicateKeys::kRefuse); });
  ask([&] { ask_everything(sluice::ConfigReader("fuzz", sluice::parse_json(text, "fuzz")), 0); });
  return 0;
}
