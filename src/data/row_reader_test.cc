// SPDX-License-Identifier: Apache-2.0
#include "data/row_reader.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Found {
  std::vector<std::string> rows;      // "line: JSON"
  std::vector<std::string> problems;  // "f:line:key: what"
};

Found read(RowFormat format, const std::string& text, RowLimits limits = {}) {
  std::istringstream stream(text);
  const auto reader = read_rows(stream, "f", format, limits);
  RowProblems problems;
  Found found;
  while (const auto row = reader->next(problems))
    found.rows.push_back(std::to_string(row->line) + ": " + row->value.dump());
  for (const RowProblem& problem : problems.first()) found.problems.push_back(problem.text());
  EXPECT_EQ(problems.count(), problems.first().size());
  return found;
}

TEST(JsonLines, RowsHaveTheirLinesAndABadOneSpoilsNoOther) {
  const Found found = read(RowFormat::kJsonLines, "\xEF\xBB\xBF{\"a\":1}\r\n\n{\"a\":\n  {\"b\": [2]}");
  EXPECT_THAT(found.rows, ElementsAre("1: {\"a\":1}", "4: {\"b\":[2]}"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("f:3: not JSON")));
}

TEST(JsonLines, ALineBeyondTheLimitIsSkippedWhole) {
  const Found found = read(RowFormat::kJsonLines, "\"12345678\"\n\"123456789\"\n1\n", {.max_row_bytes = 10});
  EXPECT_THAT(found.rows, ElementsAre("1: \"12345678\"", "3: 1"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("f:2: the row is larger than")));
}

TEST(JsonLines, DeepAndWideRowsAreRefused) {
  std::string wide = "{";
  for (int i = 0; i < 2000; ++i) wide += "\"" + std::to_string(i) + "\":0,";
  const Found found = read(RowFormat::kJsonLines, std::string(100'000, '[') + "\n" + wide + "\"x\":0}\n1");
  EXPECT_THAT(found.rows, ElementsAre("3: 1"));
  EXPECT_THAT(found.problems,
              ElementsAre(HasSubstr("f:1: the row is nested"), HasSubstr("f:2: the row has an object")));
}

TEST(JsonArray, RowsAreFoundInAnyLayout) {
  EXPECT_THAT(read(RowFormat::kJson, "\n[{\"a\": \"],\\\"{\"},\n {\"a\":\n[1,\n2]}\n,3]\n").rows,
              ElementsAre("2: {\"a\":\"],\\\"{\"}", "3: {\"a\":[1,2]}", "6: 3"));
  EXPECT_THAT(read(RowFormat::kJson, "[]").rows, IsEmpty());
  EXPECT_THAT(read(RowFormat::kJson, "{\"a\":\n1}{\"a\":2}\n").rows, ElementsAre("1: {\"a\":1}", "2: {\"a\":2}"));
}

TEST(JsonArray, BadRowsAndCutFilesAreReportedWhereTheyBegin) {
  const Found bad = read(RowFormat::kJson, "[{\"a\":1},\n{\"a\" 1},\n{\"a\":2}]\nx");
  EXPECT_THAT(bad.rows, ElementsAre("1: {\"a\":1}", "3: {\"a\":2}"));
  EXPECT_THAT(bad.problems, ElementsAre(HasSubstr("f:2: not JSON"), HasSubstr("f:4: something follows")));
  EXPECT_THAT(read(RowFormat::kJson, "[{\"a\":1},\n{\"a\":").problems,
              ElementsAre(HasSubstr("f:2: the file ends inside")));
  EXPECT_THAT(read(RowFormat::kJson, "[{\"a\":1}").problems, ElementsAre(HasSubstr("f:1: the file ends before the ]")));
  EXPECT_THAT(read(RowFormat::kJson, "[\"123456789\",\n1]", {.max_row_bytes = 10}).rows, ElementsAre("2: 1"));
}

TEST(JsonArray, AForgottenQuoteIsForgivenAtTheEndOfItsLine) {
  const Found found = read(RowFormat::kJson, "[{\n\"a: 1\n},\n{\"a\": 2}]");
  EXPECT_THAT(found.rows, ElementsAre("4: {\"a\":2}"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("f:1: not JSON")));
}

TEST(Csv, QuotesHoldSeparatorsLineEndsAndQuotes) {
  const Found found =
      read(RowFormat::kCsv,
           "\xEF\xBB\xBFprompt, completion\r\n\"a, \"\"b\"\"\",\"two\r\nlines\"\r\n\r\nplain \"x\",\n\"\",z");
  EXPECT_THAT(found.rows, ElementsAre("2: {\"prompt\":\"a, \\\"b\\\"\",\"completion\":\"two\\r\\nlines\"}",
                                      "5: {\"prompt\":\"plain \\\"x\\\"\",\"completion\":\"\"}",
                                      "6: {\"prompt\":\"\",\"completion\":\"z\"}"));
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_THAT(read(RowFormat::kTsv, "a\tb\n1,2\t3\n").rows, ElementsAre("2: {\"a\":\"1,2\",\"b\":\"3\"}"));
}

TEST(Csv, BadRecordsAreReportedAndTheNextOneIsRead) {
  const Found found = read(RowFormat::kCsv, "a,b\n1\n1,2,3\n\"x\"y,2\n\xFF,2\n1,2\n3,\"open\n4,5\n");
  EXPECT_THAT(found.rows, ElementsAre("6: {\"a\":\"1\",\"b\":\"2\"}"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("f:2: the row has 1 fields"),
                                          HasSubstr("f:3: the row has 3 fields"), HasSubstr("f:4: field 1 goes on"),
                                          HasSubstr("f:5: the row is not UTF-8"), HasSubstr("f:7: a quote is opened")));
  EXPECT_THAT(read(RowFormat::kCsv, "a,a\n1,2\n").problems, ElementsAre(HasSubstr("f:1:a: two columns")));
  EXPECT_THAT(read(RowFormat::kCsv, "a\n12345678901234567890123456789012345\n1\n", {.max_row_bytes = 64}).rows,
              ElementsAre("3: {\"a\":\"1\"}"));
}

TEST(PlainText, IsOneDocumentInPartsThatEndAtBlankLines) {
  std::istringstream stream("one\r\ntwo\n\nthree\nfour");
  const auto reader = read_rows(stream, "f", RowFormat::kText, {.max_row_bytes = 14});
  RowProblems problems;
  const auto first = reader->next(problems);
  const auto second = reader->next(problems);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->value["text"], "one\ntwo\n\n");
  EXPECT_EQ(second->value["text"], "three\nfour");
  EXPECT_EQ(second->line, 4U);
  EXPECT_TRUE(first->part->first && !first->part->last && !second->part->first && second->part->last);
  EXPECT_FALSE(reader->next(problems));
  EXPECT_THAT(read(RowFormat::kText, "a\xFF").problems, ElementsAre(HasSubstr("f:1: the text is not UTF-8")));
  EXPECT_THAT(read(RowFormat::kText, " \n").rows, IsEmpty());
}

TEST(PlainText, ACharacterIsNeverCut) {
  std::istringstream stream("aäöüäöü");
  const auto reader = read_rows(stream, "f", RowFormat::kText, {.max_row_bytes = 4});
  RowProblems problems;
  std::string whole;
  while (const auto row = reader->next(problems)) whole += row->value["text"].get<std::string>();
  EXPECT_EQ(whole, "aäöüäöü");
  EXPECT_EQ(problems.count(), 0U);
}

TEST(RowFormat, IsToldByTheEnding) {
  EXPECT_EQ(row_format_of("a/b.JSONL"), RowFormat::kJsonLines);
  EXPECT_EQ(row_format_of("b.md"), RowFormat::kText);
  EXPECT_THROW(row_format_of("b.parquet"), InvalidInput);
}

}  // namespace
}  // namespace sluice
