// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_filters.h"

namespace sluice {

JinjaFilter find_jinja_filter(std::string_view name) {
  if (const JinjaFilter found = find_jinja_text_filter(name)) return found;
  if (const JinjaFilter found = find_jinja_sequence_filter(name)) return found;
  return find_jinja_number_filter(name);
}

}  // namespace sluice
