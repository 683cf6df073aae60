// SPDX-License-Identifier: Apache-2.0
#include "text/post_processor.h"

#include <string>

#include <fmt/format.h>

#include "text/component_list.h"

namespace sluice {
namespace {

using Ids = std::vector<TokenId>;

// Each processor puts its tokens around what those before it have made.
void wrap(SpecialFrame& frame, Ids before, const Ids& behind) {
  before.insert(before.end(), frame.before.begin(), frame.before.end());
  frame.before = std::move(before);
  frame.behind.insert(frame.behind.end(), behind.begin(), behind.end());
}

Ids template_ids(const JsonView& processor, const JsonView& piece, std::size_t id_limit) {
  const std::string& name = piece.at("id").string();
  const auto token = processor.at("special_tokens").find(name);
  if (!token) piece.fail(fmt::format("names '{}', which is not among special_tokens", excerpt(name)));
  const JsonView list = token->at("ids");
  Ids ids;
  for (std::size_t i = 0; i < list.size(); ++i)
    ids.push_back(static_cast<TokenId>(list.element(i).number_below(id_limit)));
  return ids;
}

void apply_template(const JsonView& view, std::size_t id_limit, SpecialFrame& frame) {
  const JsonView pieces = view.at("single");
  Ids before;
  Ids behind;
  bool text_seen = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const JsonView piece = pieces.element(i);
    if (const auto special = piece.find("SpecialToken")) {
      const Ids ids = template_ids(view, *special, id_limit);
      Ids& side = text_seen ? behind : before;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      const JsonView sequence = piece.at("Sequence");
      if (text_seen || sequence.at("id").string() != "A") sequence.fail("should be the sequence A, once in a template");
      text_seen = true;
    }
  }
  if (!text_seen) pieces.fail("leaves no place for the text");
  wrap(frame, std::move(before), behind);
}

TokenId pair_id(const JsonView& pair, std::size_t id_limit) {
  return static_cast<TokenId>(pair.element(1).number_below(id_limit));
}

}  // namespace

SpecialFrame parse_post_processor(const JsonView& view, std::size_t id_limit) {
  SpecialFrame frame;
  for (const JsonView& one : flatten_components(view, "processors")) {
    const std::string& type = one.at("type").string();
    if (type == "TemplateProcessing") {
      apply_template(one, id_limit, frame);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      wrap(frame, {pair_id(one.at("cls"), id_limit)}, {pair_id(one.at("sep"), id_limit)});
    } else if (type != "ByteLevel") {  // which only trims ranges elsewhere; here they are exact
      one.at("type").refuse("the name of a post-processor that is supported");
    }
  }
  return frame;
}

}  // namespace sluice
