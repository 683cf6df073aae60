// SPDX-License-Identifier: Apache-2.0
#include "train/run_record.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/random.h"
#include "format/json_text.h"

namespace sluice {
namespace {

constexpr std::size_t kIdDigits = 16;

bool is_run_id(const std::string& text) {
  return text.size() == kIdDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Rejects paths that lead out of the run's folder, as an edited manifest may contain.
bool is_inside(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && path.is_relative() && name.find('\0') == std::string::npos &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".." || part == "."; });
}

// The library converts a float of any size, which is undefined beyond 64 bits.
std::int64_t integer_of(const nlohmann::json& json, const char* key) {
  const nlohmann::json& number = json.at(key);
  if (!number.is_number_integer()) throw FormatError(fmt::format("{} is not a whole number", key));
  return number.get<std::int64_t>();
}

RunInput parse_input(const nlohmann::json& json) {
  return {.role = json.at("role").get<std::string>(),
          .path = json.at("path").get<std::string>(),
          .size_bytes = static_cast<std::uint64_t>(integer_of(json, "size")),
          .modified_ns = integer_of(json, "modified_ns"),
          .hash = json.at("hash").get<std::string>(),
          .is_sampled = json.at("sampled").get<bool>()};
}

}  // namespace

std::string new_run_id() { return fmt::format("{:016x}", random_identity()); }

std::string run_record_json(const RunRecord& record) {
  nlohmann::ordered_json json{{"id", record.id},
                              {"started_unix_s", record.started_unix_s},
                              {"skip_bad", record.skip_bad},
                              {"has_begun", record.has_begun},
                              {"stores", record.stores},
                              {"inputs", nlohmann::ordered_json::array()},
                              {"files", record.files}};
  for (const RunInput& input : record.inputs) {
    json["inputs"].push_back({{"role", input.role},
                              {"path", input.path},
                              {"size", input.size_bytes},
                              {"modified_ns", input.modified_ns},
                              {"hash", input.hash},
                              {"sampled", input.is_sampled}});
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

RunRecord parse_run_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  RunRecord record;
  try {
    json.at("id").get_to(record.id);
    record.started_unix_s = integer_of(json, "started_unix_s");
    json.at("skip_bad").get_to(record.skip_bad);
    json.at("has_begun").get_to(record.has_begun);
    json.at("stores").get_to(record.stores);
    json.at("files").get_to(record.files);
    for (const nlohmann::json& input : json.at("inputs")) record.inputs.push_back(parse_input(input));
  } catch (const nlohmann::json::exception& failure) {
    throw FormatError(fmt::format("{} is not a run's record: {}", where, on_one_line(failure.what())));
  }
  const bool is_sane = is_run_id(record.id) && !record.stores.empty() &&
                       std::all_of(record.files.begin(), record.files.end(), is_inside);
  if (!is_sane) throw FormatError(fmt::format("{} is not a run's record; was it edited?", where));
  return record;
}

}  // namespace sluice
