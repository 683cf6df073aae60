// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "text/chat_template.h"

namespace {

const nlohmann::ordered_json& conversation() {
  static const nlohmann::ordered_json kMessages = nlohmann::ordered_json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüße 😀 <b>"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello", "tool_calls": [
      {"id": "abcdefgh1", "type": "function", "function": {"name": "f", "arguments": {"a": 1.5, "b": [null, true]}}}]},
    {"role": "tool", "content": "42"},
    {"role": "assistant", "content": "Done."}])");
  return kMessages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  try {
    std::map<std::string, sluice::JinjaTemplate> templates;
    templates.try_emplace("default", source, "template");
    const sluice::ChatTemplate chat(std::move(templates), {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    sluice::RenderOptions options;
    options.limits = {.max_steps = 20'000, .max_output_bytes = 1 << 16, .max_allocated_bytes = 1 << 20};
    const sluice::RenderedChat rendered = chat.render(conversation(), options);
    std::size_t at = 0;
    for (const sluice::TextSpan& span : rendered.assistant) {
      CHECK(at <= span.begin && span.begin < span.end && span.end <= rendered.text.size(), "spans are in order");
      at = span.end;
    }
  } catch (const sluice::Error&) {
  }
  return 0;
}
