// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_arguments.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

namespace sluice {

BoundJinjaArguments::BoundJinjaArguments(std::string_view what, std::size_t num_required,
                                         std::initializer_list<std::string_view> names, JinjaArguments arguments)
    : what_(what), values_(names.size()), given_(names.size(), false) {
  if (arguments.positional.size() > names.size()) {
    throw JinjaFailure(
        fmt::format("{} takes {} arguments at most, got {}", what, names.size(), arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  std::size_t idx = 0;
  for (const std::string_view name : names) {
    if (std::optional<JinjaValue> named = arguments.take(name)) {
      if (given_[idx]) throw JinjaFailure(fmt::format("{} got two values for '{}'", what, name));
      values_[idx] = std::move(*named);
      given_[idx] = true;
    }
    if (idx < num_required && !given_[idx]) throw JinjaFailure(fmt::format("{} needs the argument '{}'", what, name));
    ++idx;
  }
  if (!arguments.named.empty()) {
    throw JinjaFailure(fmt::format("{} got an unexpected keyword argument '{}'", what, arguments.named.front().first));
  }
}

std::int64_t BoundJinjaArguments::integer(std::size_t idx, std::int64_t otherwise) const {
  if (!given_[idx]) return otherwise;
  if (values_[idx].is_undefined()) throw JinjaFailure(values_[idx].undefined_message());
  if (!values_[idx].is_integral()) {
    throw JinjaFailure(fmt::format("{} needs an integer, got '{}'", what_, values_[idx].type_name()));
  }
  return values_[idx].as_int();
}

std::string BoundJinjaArguments::text(std::size_t idx, std::string otherwise) const {
  if (!given_[idx]) return otherwise;
  if (values_[idx].is_undefined()) throw JinjaFailure(values_[idx].undefined_message());
  if (!values_[idx].is_text()) {
    throw JinjaFailure(fmt::format("{} needs a string, got '{}'", what_, values_[idx].type_name()));
  }
  return values_[idx].as_text();
}

}  // namespace sluice
