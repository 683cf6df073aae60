// SPDX-License-Identifier: Apache-2.0
#include "format/checkpoint_index.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/units.h"
#include "format/json_text.h"
#include "format/whole_file.h"

namespace sluice {
namespace {

// A model of 128 experts and 94 layers has 5 MB of index; the largest published have a few times that.
constexpr std::uint64_t kMaxIndexBytes = 256 * kMiB;

// A name that leads out of the folder, or back into it by another way, is none that a checkpoint has.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where, DuplicateKeys::kRefuse);
  if (!json.is_object()) throw FormatError(fmt::format("'{}' is {}; expected an object", where, describe_json(json)));
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object()) {
    throw FormatError(fmt::format("'{}' has {} as weight_map; expected an object of tensor and shard names", where,
                                  weight_map == json.end() ? "nothing" : describe_json(*weight_map)));
  }
  if (weight_map->empty()) throw FormatError(fmt::format("'{}' lists no tensors in its weight_map", where));
  CheckpointIndex index;
  for (const auto& entry : weight_map->items()) {
    if (!entry.value().is_string()) {
      throw FormatError(fmt::format("'{}' has {} as the shard of tensor {}; expected a file name", where,
                                    describe_json(entry.value()), in_quotes(entry.key())));
    }
    auto shard_name = entry.value().get<std::string>();
    if (!is_plain_file_name(shard_name)) {
      throw FormatError(fmt::format("'{}' has {} as the shard of tensor {}; expected the name of a file in its folder",
                                    where, in_quotes(shard_name), in_quotes(entry.key())));
    }
    index.weight_map.emplace_hint(index.weight_map.end(), entry.key(), std::move(shard_name));
  }
  if (const auto metadata = json.find("metadata"); metadata != json.end() && metadata->is_object()) {
    const auto total_size = metadata->find("total_size");
    if (total_size != metadata->end() && total_size->is_number_unsigned()) {
      index.total_bytes = total_size->get<std::uint64_t>();
    }
  }
  return index;
}

CheckpointIndex read_checkpoint_index(FileSystem& files, IoEngine& engine, const std::string& path) {
  return parse_checkpoint_index(read_whole_file(files, engine, path, kMaxIndexBytes), path);
}

std::string make_checkpoint_index(const CheckpointIndex& index) {
  nlohmann::json json;
  json["metadata"] = nlohmann::json::object();
  if (index.total_bytes) json["metadata"]["total_size"] = *index.total_bytes;
  json["weight_map"] = index.weight_map;
  return json.dump(2) + "\n";
}

}  // namespace sluice
