// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_template.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::string render(std::string_view source, const Json& variables = Json::object()) {
  return JinjaTemplate(source, "t").render(variables, 0).text;
}

std::string failure(std::string_view source) {
  try {
    render(source);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(JinjaTemplate, BlocksSwallowTheNewlineBehindThemAndTheBlanksBeforeThem) {
  EXPECT_EQ(render("  {% if true %}\n  a\n  {% endif %}\n  b\n"), "  a\n  b");
}

TEST(JinjaTemplate, KeepsTheOrderOfKeysInJson) {
  EXPECT_EQ(render("{{ d | tojson }}", {{"d", {{"b", 1.0}, {"a", "é\n"}}}}), R"({"b": 1.0, "a": "é\n"})");
}

TEST(JinjaTemplate, GenerationBlocksTellTheirPlace) {
  const JinjaOutput output = JinjaTemplate("é{% generation %}ab{% endgeneration %}c", "t").render(Json::object(), 0);
  EXPECT_EQ(output.text, "éabc");
  EXPECT_THAT(output.generated, testing::ElementsAre(TextSpan{2, 4}));
  EXPECT_FALSE(output.lost_generation);
}

TEST(JinjaTemplate, AGenerationBlockInsideAMacroIsKnownToBeLost) {
  const JinjaTemplate source("{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ m() }}", "t");
  EXPECT_TRUE(source.render(Json::object(), 0).lost_generation);
}

TEST(JinjaTemplate, FailuresNameTheLine) {
  EXPECT_THAT(failure("a\n\n{{ x | nope }}"), testing::AllOf(HasSubstr("t, line 3"), HasSubstr("nope")));
  EXPECT_THAT(failure("a\n{% if true %}"), HasSubstr("endif"));
  EXPECT_THAT(failure("\n{{ missing.x }}"), testing::AllOf(HasSubstr("line 2"), HasSubstr("'missing' is undefined")));
  EXPECT_THAT(failure("{% import 'x' as y %}"), HasSubstr("import"));
  EXPECT_THAT(failure("{{ nope() }}"), HasSubstr("'nope' is undefined"));
  EXPECT_THAT(failure("{{ [].append(1) }}"), HasSubstr("unsafe"));
}

TEST(JinjaTemplate, ARefusalOfTheMessagesIsTheUsersMistake) {
  try {
    render("{{ raise_exception('roles must alternate') }}");
    FAIL();
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("roles must alternate"));
  }
}

TEST(JinjaTemplate, TemplatesThatWouldNotEndAreStopped) {
  EXPECT_THAT(failure("{% for i in range(10**9) %}{% endfor %}"), HasSubstr("range"));
  EXPECT_THAT(failure("{% for a in range(9999) %}{% for b in range(9999) %}{{ a * b }}{% endfor %}{% endfor %}"),
              HasSubstr("ran longer than"));
  EXPECT_THAT(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("macro"));
  EXPECT_THAT(failure("{{ 'a' * 10**12 }}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
              HasSubstr("longer than"));
  EXPECT_THAT(failure("{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}"),
              HasSubstr("nested"));
  EXPECT_THAT(failure("{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
                      "{{ n.x }}"),
              testing::AnyOf(HasSubstr("ran longer"), HasSubstr("more than")));
}

// Each took minutes or gigabytes where only some of what it does was counted.
TEST(JinjaTemplate, WorkOnLongTextsIsCounted) {
  EXPECT_THAT(failure("{% set x = 'a' * 99000000 %}{% for i in range(100000) %}{% set y = x < x %}{% endfor %}"),
              HasSubstr("ran longer than"));
  EXPECT_THAT(failure("{{ ('a' * 200000000)[0:1] }}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{{ ('\\x01' * 200000000)|tojson }}"), HasSubstr("memory"));
  const std::string with_x = "{% set x = 'a' * 99000000 %}{{ ";
  for (const char* const each : {"(['b'] * 100000)|select('in', x)|list", "([x] * 100000)|select('lt', x)|list",
                                 "([1] * 10000)|map('tojson', indent=x)|list"}) {
    EXPECT_THAT(failure(with_x + each + " }}"), HasSubstr("ran longer than")) << each;
  }
  EXPECT_THAT(failure(with_x + "dict([[x, 1]] * 100) }}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{{ ('a' * 200000000).split('a') }}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{% set n = namespace(range(50000)|map('string')|batch(2)) %}"
                      "{% for i in range(99999) %}{{ n.z }}{% endfor %}"),
              HasSubstr("ran longer than"));
  for (const char* const each :
       {"'a'.ljust(4611686018427387905, '😀')", "[1]|batch(576460752303423489, 0)|list", "strftime_now('a' * 40000000)",
        "('\\n' * 70000000).splitlines()", "('\\n' * 70000000)|indent", "[1]|map(attribute='.' * 20000000)|list",
        "[1]|sort(attribute=',' * 20000000)", "{'\\x01' * 140000000: 1}|tojson"}) {
    EXPECT_THAT(failure("{{ " + std::string(each) + " }}"), HasSubstr("memory")) << each;
  }
  EXPECT_THAT(failure(with_x + "(x, 1) in {1: 1} }}"), HasSubstr("too large to be a key"));
  EXPECT_THAT(failure("{% set t = ('a' * 60000,) %}{% for i in range(99999) %}{{ t in {} }}{% endfor %}"),
              HasSubstr("ran longer than"));
  EXPECT_THAT(failure("{% set x = 'a' * 60000 %}{{ dict([[(x, 1), 1]] * 99999) }}"), HasSubstr("memory"));
  EXPECT_THAT(failure("{{ namespace(range(99999)|map('string')|batch(2, '')) }}"), HasSubstr("ran longer than"));
  EXPECT_THAT(failure("{{ " + std::string(1025, 'a') + " }}"), HasSubstr("longer than 1024"));
  std::string many;
  for (int i = 0; i < 2000; ++i) many += fmt::format("{}a{}", i > 0 ? ", " : "", i);
  EXPECT_THAT(failure("{% macro m(" + many + ") %}{% endmacro %}"), HasSubstr("1024 parameters"));
  many.clear();
  for (int i = 0; i < 2000; ++i) many += fmt::format("{}a{}=1", i > 0 ? ", " : "", i);
  EXPECT_THAT(failure("{{ dict(" + many + ") }}"), HasSubstr("1024 named arguments"));
  many.clear();
  for (int i = 0; i < 30000; ++i) many += fmt::format("{{% set a{} = 1 %}}", i);
  EXPECT_THAT(failure(many), HasSubstr("ran longer than"));
}

TEST(JinjaTemplate, SearchesInLongTextsEnd) {
  EXPECT_EQ(render("{{ ('Σ' * 100000)|lower|length }}"), "100000");
  EXPECT_EQ(render("{{ ('a' * 2000000).find('a' * 1000000 ~ 'b') }}"), "-1");
  EXPECT_EQ(render("{{ ('x' * 3000000).rfind('x' * 1000000 ~ 'y' ~ 'x' * 1000000) }}"), "-1");
  EXPECT_EQ(render("{{ (('a' * 65) * 100000).rsplit('a' * 65)|length }}"), "100001");
  EXPECT_EQ(render("{{ ('a' * 50000000).count('a') }}"), "50000000");
  EXPECT_EQ(render("{{ ('a' * 2000000).strip('b' * 2000000 ~ 'a')|length }}"), "0");
}

TEST(JinjaTemplate, DeepNestingIsRefused) {
  EXPECT_THAT(failure("{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}"), HasSubstr("deep"));
  EXPECT_THAT(failure("{{ " + std::string(100'000, '[') + std::string(100'000, ']') + " }}"), HasSubstr("deep"));
  EXPECT_THAT(failure("{{ " + std::string(100'000, '-') + "1 }}"), HasSubstr("deep"));
  std::string sum = "{{ 1";
  std::string ifs;
  for (int i = 0; i < 100'000; ++i) {
    sum += "+1";
    ifs += "{% if 1 %}";
  }
  EXPECT_THAT(failure(sum + " }}"), HasSubstr("deep"));
  EXPECT_THAT(failure(ifs), HasSubstr("deep"));
}

}  // namespace
}  // namespace sluice
