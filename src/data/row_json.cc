// SPDX-License-Identifier: Apache-2.0
#include "data/row_json.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/row_problem.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxKeysOfObject = 1'000;
constexpr std::size_t kValuesPerPoll = 16'384;

// SAX handler that builds the value and enforces limits. (The parser's own callback is quadratic for long lists.)
class RowBuilder : public nlohmann::json_sax<RowJson> {
 public:
  RowBuilder(std::size_t num_text_bytes, const std::string& key, const std::function<bool()>& interrupted)
      : num_text_bytes_(num_text_bytes), key_(key), interrupted_(interrupted) {}

  RowJson take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string& /*text*/) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*count*/) override { return open(RowJson::object()); }
  bool start_array(std::size_t /*count*/) override { return open(RowJson::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    RowJson& object = *open_.back();
    place_ = &object[name];  // of duplicate keys the last counts
    if (object.size() > kMaxKeysOfObject) fail(fmt::format("has an object of more than {} keys", kMaxKeysOfObject));
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& /*token*/, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    if (error.id == kNumberOutOfRange) {
      throw BadRow(key_, "a number is too large for any number type; write it as a string");
    }
    throw BadRow(key_, fmt::format("not JSON: it goes wrong at byte {} of {}; write the {} with a JSON library", byte,
                                   num_text_bytes_, key_.empty() ? "row" : "value"));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadRow(key_, fmt::format("the row {}; keep what the model should read and drop the rest", what));
  }

  // Returns the slot for the next value.
  RowJson& next_place() {
    if (open_.empty()) return root_;
    RowJson& container = *open_.back();
    if (container.is_object()) return *place_;
    container.push_back(nullptr);
    return container.back();
  }

  template <typename Value>
  bool put(Value&& value) {
    count_value();
    next_place() = RowJson(std::forward<Value>(value));
    return true;
  }

  bool open(RowJson container) {
    if (open_.size() >= kMaxDepth) fail(fmt::format("is nested more than {} levels deep", kMaxDepth));
    count_value();
    RowJson& place = next_place();
    place = std::move(container);
    open_.push_back(&place);
    return true;
  }

  // An open container is the last element of its parent, so no reallocation moves it.
  bool close() {
    open_.pop_back();
    return true;
  }

  void count_value() {
    if (++num_values_ > kMaxValues) fail(fmt::format("has more than {} values", kMaxValues));
    if (num_values_ % kValuesPerPoll == 0 && interrupted_ && interrupted_()) {
      throw Cancelled("stopped while a row was read; nothing was kept");
    }
  }

  std::size_t num_text_bytes_;
  const std::string& key_;
  const std::function<bool()>& interrupted_;
  RowJson root_;
  std::vector<RowJson*> open_;
  RowJson* place_ = nullptr;  // slot of the value whose key was read last
  std::size_t num_values_ = 0;
};

}  // namespace

RowJson parse_row_json(std::string_view text, const std::string& key, const std::function<bool()>& interrupted) {
  RowBuilder builder(text.size(), key, interrupted);
  RowJson::sax_parse(text, &builder);
  return builder.take();
}

std::string describe_row_json(const RowJson& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace sluice
