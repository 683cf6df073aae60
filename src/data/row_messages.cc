// SPDX-License-Identifier: Apache-2.0
#include "data/row_messages.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "data/message_parts.h"
#include "data/row_problem.h"

namespace sluice {
namespace {

// A speaker's name in a ShareGPT turn, and its chat role.
struct Speaker {
  std::string_view name;
  std::string_view role;
};
constexpr std::array<Speaker, 13> kSpeakers{{{"human", "user"},
                                             {"user", "user"},
                                             {"gpt", "assistant"},
                                             {"assistant", "assistant"},
                                             {"chatgpt", "assistant"},
                                             {"bot", "assistant"},
                                             {"model", "assistant"},
                                             {"function_call", "assistant"},
                                             {"system", "system"},
                                             {"observation", "tool"},
                                             {"function_response", "tool"},
                                             {"function", "tool"},
                                             {"tool", "tool"}}};

// ShareGPT speakers that some files put under `role`.
constexpr std::array<std::string_view, 4> kSpeakersAsRoles{"human", "gpt", "function_call", "observation"};

// Keys for a message's training flag: OpenAI's and Together's weight, LLaMA-Factory's loss_weight, ms-swift's loss, the
// usual values of Axolotl's message_field_training.
constexpr std::array<std::string_view, 5> kTrainingKeys{"weight", "loss_weight", "loss", "train", "training"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const RowJson& require_member(const RowJson& object, std::string_view member, const std::string& key) {
  const auto found = object.find(member);
  if (found == object.end()) throw BadRow(key, "the key is missing; add it");
  return *found;
}

std::string text_of(const RowJson& object, std::string_view member, const std::string& key) {
  const RowJson& value = require_member(object, member, key);
  if (!value.is_string()) throw BadRow(key, fmt::format("wanted a string, found {}", describe_row_json(value)));
  return value.get<std::string>();
}

void check_role(const std::string& role, const std::string& key) {
  static constexpr std::array<std::string_view, 7> kRoles{"system", "developer", "user",   "assistant",
                                                          "tool",   "function",  "ipython"};
  if (is_among(kRoles, role)) return;
  throw BadRow(key, fmt::format("there is no role {}; use system, user, assistant or tool", describe_row_json(role)));
}

bool yes_or_no(const RowJson& value, const std::string& key) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number == 0 || number == 1) return number == 1;
  }
  throw BadRow(key, fmt::format("wanted 0 or 1, or true or false, found {}: a message is trained on or not, there are "
                                "no weights in between",
                                describe_row_json(value)));
}

// Removes and returns the message's training flag; nullopt: it has none.
std::optional<bool> take_training(RowJson& message, std::string_view list, std::size_t idx) {
  std::optional<bool> training;
  for (const std::string_view name : kTrainingKeys) {
    const auto found = message.find(name);
    if (found == message.end()) continue;
    if (!found->is_null()) {
      const std::string key = message_place(list, idx, name);
      const bool trained = yes_or_no(*found, key);
      if (training && *training != trained) {
        throw BadRow(key, "the message says of its training both yes and no; leave one of the keys");
      }
      training = trained;
    }
    message.erase(found);
  }
  const auto detail = message.find("train_detail");
  if (detail != message.end() && !detail->is_null() && !detail->empty()) {
    throw BadRow(message_place(list, idx, "train_detail"),
                 "training on parts of a message is not supported; split the message, or use train for all of it");
  }
  return training;
}

void note_training(RowMessages& to, bool is_assistant, std::optional<bool> training) {
  if (!training) return;
  const std::size_t idx = to.list.size();
  if (is_assistant && !*training) to.untrained.push_back(idx);
  if (!is_assistant && *training) to.trained_others.push_back(idx);
}

void check_media(const RowJson& message, std::string_view list, std::size_t idx) {
  for (const std::string_view name : kMediaKeys) {
    const auto found = message.find(name);
    if (found != message.end() && holds_something(*found)) refuse_media(message_place(list, idx, name), name);
  }
}

// Converts function_call, OpenAI's older form of a tool call.
void settle_function_call(RowJson& message, const std::string& key) {
  const auto found = message.find("function_call");
  if (found == message.end()) return;
  if (!found->is_null() && !message.contains("tool_calls")) {
    RowJson calls = calls_of(*found, key);
    message.erase("function_call");
    message["tool_calls"] = std::move(calls);
    return;
  }
  message.erase(found);
}

void check_content(const RowJson& message, std::string_view list, std::size_t idx) {
  const std::string key = message_place(list, idx, "content");
  const auto content = message.find("content");
  const auto calls = message.find("tool_calls");
  const bool calls_tools = calls != message.end() && !calls->is_null();
  if (calls_tools && !calls->is_array()) {
    throw BadRow(message_place(list, idx, "tool_calls"),
                 fmt::format("wanted a list of calls, found {}", describe_row_json(*calls)));
  }
  if (content == message.end() || content->is_null()) {
    if (!calls_tools) throw BadRow(key, "the content is missing; write what was said, or a list of tool_calls");
  } else if (!content->is_string() && !content->is_array()) {
    throw BadRow(key, fmt::format("wanted a string or a list of parts, found {}", describe_row_json(*content)));
  }
}

void add_message(RowMessages& to, RowJson message, std::string_view list, std::size_t idx) {
  if (!message.is_object()) {
    throw BadRow(message_place(list, idx, ""),
                 fmt::format("wanted an object with role and content, found {}", describe_row_json(message)));
  }
  const std::string role_key = message_place(list, idx, "role");
  std::string role = text_of(message, "role", role_key);
  if (is_among(kSpeakersAsRoles, role)) {
    if (role == "function_call") {
      RowJson calls = calls_of(require_member(message, "content", message_place(list, idx, "content")),
                               message_place(list, idx, "content"));
      message["content"] = "";
      message["tool_calls"] = std::move(calls);
    }
    role = std::find_if(kSpeakers.begin(), kSpeakers.end(), [&](const Speaker& known) {
             return known.name == role;
           })->role;
    message["role"] = role;
  }
  check_role(role, role_key);
  note_training(to, role == "assistant", take_training(message, list, idx));
  check_media(message, list, idx);
  settle_function_call(message, message_place(list, idx, "function_call"));
  check_content(message, list, idx);
  if (settle_parts(message, message_place(list, idx, "content"))) to.any_parts = true;
  if (has_written_arguments(message)) to.any_written_arguments = true;
  if (is_wordless_call(message)) to.any_wordless_calls = true;
  to.list.push_back(std::move(message));
}

void add_turn(RowMessages& to, RowJson turn, std::string_view list, std::size_t idx, RowLeftovers& leftovers) {
  if (!turn.is_object()) {
    throw BadRow(message_place(list, idx, ""),
                 fmt::format("wanted an object with from and value, found {}", describe_row_json(turn)));
  }
  if (!turn.contains("from") && turn.contains("role")) {
    if (!turn.contains("content") && turn.contains("value")) turn["content"] = turn["value"];
    turn.erase("value");
    return add_message(to, std::move(turn), list, idx);
  }
  const std::string from_key = message_place(list, idx, "from");
  const std::string value_key = message_place(list, idx, "value");
  const std::string from = text_of(turn, "from", from_key);
  std::string value = text_of(turn, "value", value_key);
  const auto* const speaker =
      std::find_if(kSpeakers.begin(), kSpeakers.end(), [&](const Speaker& known) { return known.name == from; });
  if (speaker == kSpeakers.end()) {
    throw BadRow(from_key, fmt::format("nobody is called {}; use human, gpt, system, function_call or observation",
                                       describe_row_json(from)));
  }
  note_training(to, speaker->role == "assistant", take_training(turn, list, idx));
  check_media(turn, list, idx);
  for (const auto& item : turn.items()) {
    if (item.key() == "from" || item.key() == "value" || !holds_something(item.value())) continue;
    leftovers.add_note(fmt::format("the turns' key {} is not used", describe_row_json(item.key())));
  }
  if (from == "function_call") {
    to.list.push_back(RowJson{
        {"role", "assistant"}, {"content", ""}, {"tool_calls", calls_of(RowJson(std::move(value)), value_key)}});
    if (has_written_arguments(to.list.back())) to.any_written_arguments = true;
    to.any_wordless_calls = true;
  } else {
    to.list.push_back(RowJson{{"role", speaker->role}, {"content", std::move(value)}});
  }
}

void begin_list(RowMessages& to, const std::string& key) {
  if (to.list.is_null()) to.list = RowJson::array();
  to.places.emplace_back(key, to.list.size());
}

}  // namespace

std::string message_place(std::string_view list, std::size_t idx, std::string_view member) {
  return fmt::format("{}[{}]{}{}", list, idx, member.empty() ? "" : ".", member);
}

std::string RowMessages::place_of(std::size_t idx, std::string_view member) const {
  const auto behind = std::find_if(places.begin(), places.end(), [&](const auto& place) { return place.second > idx; });
  if (behind == places.begin()) return "system";  // from the row's own system key
  return message_place((behind - 1)->first, idx - (behind - 1)->second, member);
}

void add_system(RowMessages& to, const std::string& system) {
  if (to.list.is_null()) to.list = RowJson::array();
  if (!system.empty()) to.list.push_back(RowJson{{"role", "system"}, {"content", system}});
}

void add_messages(RowMessages& to, RowJson messages, const std::string& key) {
  if (messages.empty()) throw BadRow(key, "the conversation is empty; add messages or remove the row");
  begin_list(to, key);
  for (std::size_t i = 0; i < messages.size(); ++i) add_message(to, std::move(messages[i]), key, i);
}

void add_turns(RowMessages& to, RowJson turns, const std::string& key, RowLeftovers& leftovers) {
  if (turns.empty()) throw BadRow(key, "the conversation is empty; add turns or remove the row");
  begin_list(to, key);
  for (std::size_t i = 0; i < turns.size(); ++i) add_turn(to, std::move(turns[i]), key, i, leftovers);
}

void add_plain(RowMessages& to, std::string_view role, std::string content) {
  if (to.list.is_null()) to.list = RowJson::array();
  to.list.push_back(RowJson{{"role", role}, {"content", std::move(content)}});
}

}  // namespace sluice
