// SPDX-License-Identifier: Apache-2.0
// The arguments of one filter, method or function, matched to its parameters by place and by name. Owns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_object.h"
#include "text/jinja_value.h"

namespace sluice {

class BoundJinjaArguments {
 public:
  // `what` names the filter or function in failures. Throws for arguments that are too many, unknown or missing.
  BoundJinjaArguments(std::string_view what, std::size_t num_required, std::initializer_list<std::string_view> names,
                      JinjaArguments arguments);

  // Null where it was not given.
  const JinjaValue* get(std::size_t idx) const { return given_[idx] ? &values_[idx] : nullptr; }
  // Null also where it is None.
  const JinjaValue* get_some(std::size_t idx) const {
    return given_[idx] && !values_[idx].is_none() ? &values_[idx] : nullptr;
  }
  JinjaValue value(std::size_t idx, const JinjaValue& otherwise = {}) const {
    return given_[idx] ? values_[idx] : otherwise;
  }
  bool truth(std::size_t idx) const { return given_[idx] && values_[idx].truth(); }
  std::int64_t integer(std::size_t idx, std::int64_t otherwise) const;
  std::string text(std::size_t idx, std::string otherwise = {}) const;

 private:
  std::string what_;
  JinjaValues values_;
  std::vector<bool> given_;
};

}  // namespace sluice
