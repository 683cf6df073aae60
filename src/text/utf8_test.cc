// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, value);
    const CodePoint point = decode_utf8(text, 0);
    ASSERT_TRUE(point.valid);
    ASSERT_EQ(point.value, value);
    ASSERT_EQ(point.size_bytes, text.size());
  }
}

TEST(Utf8, RefusesOverlongSurrogatesStrayAndCutBytes) {
  EXPECT_TRUE(is_utf8("gr\xC3\xBC\xC3\x9F dich \xF0\x9F\x98\x80"));
  for (const char* text :
       {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

}  // namespace
}  // namespace sluice
