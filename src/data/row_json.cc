// SPDX-License-Identifier: Apache-2.0
#include "data/row_json.h"

#include <cstddef>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "data/row_problem.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxKeysOfObject = 1'000;

class RowCheck {
 public:
  explicit RowCheck(const std::string& key) : key_(key) {}

  bool operator()(int depth, RowJson::parse_event_t event, const RowJson&) {
    using Event = RowJson::parse_event_t;
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= kMaxDepth) fail(fmt::format("is nested more than {} levels deep", kMaxDepth));
    if (event == Event::object_start) num_keys_.push_back(0);
    if (event == Event::object_end) num_keys_.pop_back();
    if (event == Event::key && ++num_keys_.back() > kMaxKeysOfObject) {
      fail(fmt::format("has an object of more than {} keys", kMaxKeysOfObject));
    }
    if ((opens || event == Event::value) && ++num_values_ > kMaxValues) {
      fail(fmt::format("has more than {} values", kMaxValues));
    }
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadRow(key_, fmt::format("the row {}; keep what the model should read and drop the rest", what));
  }

  const std::string& key_;
  std::vector<std::size_t> num_keys_;  // of each object that is open
  std::size_t num_values_ = 0;
};

}  // namespace

RowJson parse_row_json(std::string_view text, const std::string& key) {
  try {
    RowCheck check(key);
    return RowJson::parse(text, std::ref(check));
  } catch (const RowJson::parse_error& error) {
    throw BadRow(key, fmt::format("not JSON: it goes wrong at byte {} of {}; write the {} with a JSON library",
                                  error.byte, text.size(), key.empty() ? "row" : "value"));
  } catch (const RowJson::out_of_range&) {
    throw BadRow(key, "a number is too large for any number type; write it as a string");
  }
}

std::string describe_row_json(const RowJson& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace sluice
