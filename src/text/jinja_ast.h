// SPDX-License-Identifier: Apache-2.0
// A parsed Jinja template: statements that hold expressions. Plain data, owned top down, read-only once parsed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace sluice {

struct JinjaExpr;
using JinjaExprPtr = std::unique_ptr<JinjaExpr>;

struct JinjaExpr {
  enum class Kind {
    kConst,
    kName,
    kList,
    kTuple,
    kDict,         // parts: key, value, key, value...
    kAttribute,    // parts: object; name
    kItem,         // parts: object, index
    kSlice,        // parts: object, then start, stop, step, each of which may be null
    kCall,         // parts: callee, arguments
    kFilter,       // parts: input (null in a filter block), arguments; name
    kTest,         // parts: input, arguments; name
    kNot,          // parts: operand
    kNegative,     // likewise
    kPositive,     // likewise
    kBinary,       // parts: left, right; name is the operator
    kAnd,          // parts: left, right
    kOr,           // likewise
    kCompare,      // parts: first, second...; keywords are the operators between them
    kConcat,       // parts
    kConditional,  // parts: value, condition, otherwise (may be null)
  };
  Kind kind = Kind::kConst;
  int line = 0;
  int depth = 1;
  std::string name;
  JinjaValue value;
  std::vector<JinjaExprPtr> parts;
  std::vector<std::string> keywords;  // the last parts are arguments with these names
  JinjaExprPtr star;                  // f(*star)
  JinjaExprPtr double_star;           // f(**double_star)
};

struct JinjaStatement;
using JinjaBody = std::vector<JinjaStatement>;

struct JinjaParameters {
  std::vector<std::string> names;
  std::vector<JinjaExprPtr> defaults;  // of the last names
};

struct JinjaBranch;

struct JinjaStatement {
  enum class Kind {
    kData,         // text
    kPrint,        // value
    kIf,           // branches, otherwise
    kFor,          // target, value, condition (may be null), body, otherwise
    kSet,          // target, value
    kSetBlock,     // target, value (a filter, may be null), body
    kMacro,        // text is its name; parameters, body
    kCallBlock,    // value is the call; parameters, body
    kFilterBlock,  // value is the filter, body
    kWith,         // targets and values in turn in `list`, body
    kGeneration,   // body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kData;
  int line = 0;
  std::string text;
  JinjaExprPtr target;
  JinjaExprPtr value;
  JinjaExprPtr condition;
  std::vector<JinjaExprPtr> list;
  std::vector<JinjaBranch> branches;
  JinjaBody body;
  JinjaBody otherwise;
  JinjaParameters parameters;
  // Whether a macro's body mentions them: only then does it accept what they catch.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_loop = false;  // whether a for's body mentions it
};

struct JinjaBranch {
  JinjaExprPtr condition;
  JinjaBody body;
};

}  // namespace sluice
