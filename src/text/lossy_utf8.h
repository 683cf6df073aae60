// SPDX-License-Identifier: Apache-2.0
// Bytes to text as they come: whole characters go through, what is not UTF-8 becomes U+FFFD (one for each maximal part
// of a character, as Unicode recommends), and a character that may still be completed is held back. One thread at a
// time.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

class LossyUtf8 {
 public:
  std::string push(std::string_view bytes);
  // What was held back is not going to be completed.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace sluice
