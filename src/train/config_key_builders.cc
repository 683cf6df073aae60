// SPDX-License-Identifier: Apache-2.0
#include "train/config_key_builders.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// The rest of a key follows from how its field is read and written.
template <typename Read, typename Write>
ConfigKey make_key(std::string_view name, Synonyms synonyms, std::string type, Read read, Write write) {
  ConfigKey key{.name = name, .synonyms = std::move(synonyms), .type = std::move(type), .field = name};
  key.read = [name, read](ConfigDraft& draft, const ConfigValue& value) {
    read(draft, value);
    return name;
  };
  key.write = write;
  key.default_text = key.write(ConfigDraft{});
  return key;
}

// A number that reads back as the same number, and as a number in readers that want a point before an exponent.
std::string write_real(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') != std::string::npos) return text;
  const std::size_t exponent = std::min(text.find('e'), text.size());
  return text.insert(exponent, ".0");
}

}  // namespace

std::string write_list(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? ", " : "") + yaml_scalar(text);
  return list + "]";
}

ConfigKey integer_key(std::string_view name, Synonyms synonyms, CountRange range, std::uint64_t TrainConfig::*member) {
  return make_key(
      name, std::move(synonyms), describe_range(range),
      [range, member](ConfigDraft& draft, const ConfigValue& value) { draft.config.*member = value.integer(range); },
      [member](const ConfigDraft& draft) { return std::to_string(draft.config.*member); });
}

ConfigKey optional_key(std::string_view name, Synonyms synonyms, std::string_view none,
                       std::optional<std::uint64_t> TrainConfig::*member, CountRange range) {
  const std::string type = none == "auto" ? "auto, " + describe_range(range) : describe_range(range);
  return make_key(
      name, std::move(synonyms), type,
      [none, member, range](ConfigDraft& draft, const ConfigValue& value) {
        (draft.config.*member).reset();
        if (none != "null" && value.is_word(none)) return;
        draft.config.*member = value.integer(range);
      },
      [none, member](const ConfigDraft& draft) {
        const std::optional<std::uint64_t>& number = draft.config.*member;
        return number ? std::to_string(*number) : std::string(none);
      });
}

ConfigKey real_key(std::string_view name, Synonyms synonyms, NumberRange range, double TrainConfig::*member) {
  return make_key(
      name, std::move(synonyms), describe_range(range),
      [range, member](ConfigDraft& draft, const ConfigValue& value) { draft.config.*member = value.real(range); },
      [member](const ConfigDraft& draft) { return write_real(draft.config.*member); });
}

ConfigKey flag_key(std::string_view name, Synonyms synonyms, bool TrainConfig::*member) {
  return make_key(
      name, std::move(synonyms), "true, false",
      [member](ConfigDraft& draft, const ConfigValue& value) { draft.config.*member = value.flag(); },
      [member](const ConfigDraft& draft) { return std::string(draft.config.*member ? "true" : "false"); });
}

ConfigKey text_key(std::string_view name, Synonyms synonyms, std::string TrainConfig::*member) {
  return make_key(
      name, std::move(synonyms), "text",
      [member](ConfigDraft& draft, const ConfigValue& value) { draft.config.*member = value.text(); },
      [member](const ConfigDraft& draft) {
        const std::string& text = draft.config.*member;
        return text.empty() ? "null" : yaml_scalar(text);
      });
}

ConfigKey bytes_key(std::string_view name, Synonyms synonyms, std::optional<std::uint64_t> TrainConfig::*member) {
  return make_key(
      name, std::move(synonyms), "auto, size such as 40GiB",
      [member](ConfigDraft& draft, const ConfigValue& value) {
        (draft.config.*member).reset();
        if (!value.is_word("auto")) draft.config.*member = value.bytes();
      },
      [member](const ConfigDraft& draft) {
        const std::optional<std::uint64_t>& size_bytes = draft.config.*member;
        return size_bytes ? std::to_string(*size_bytes) : "auto";
      });
}

ConfigKey interval_key(std::string_view name, Synonyms synonyms, StepInterval TrainConfig::*member) {
  constexpr std::string_view kType = "integer ≥ 1, or a part of the run < 1";
  return make_key(
      name, std::move(synonyms), std::string(kType),
      [member](ConfigDraft& draft, const ConfigValue& value) {
        const double number = value.real({.lowest = NumberRange::Bound::kExcluded});
        draft.config.*member =
            number < 1 ? StepInterval{.ratio = number} : StepInterval{.steps = value.integer({.min = 1})};
      },
      [member](const ConfigDraft& draft) {
        const StepInterval& interval = draft.config.*member;
        return interval.ratio > 0 ? write_real(interval.ratio) : std::to_string(interval.steps);
      });
}

}  // namespace sluice
