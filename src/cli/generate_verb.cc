// SPDX-License-Identifier: Apache-2.0
#include "cli/generate_verb.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "cli/dtype_option.h"
#include "cli/model_option.h"
#include "cli/terminal.h"
#include "cli/work_display.h"
#include "format/json_text.h"
#include "format/model_folder.h"
#include "infer/continuation.h"
#include "infer/model_memory.h"
#include "infer/open_model.h"
#include "io/posix/posix_file.h"
#include "io/threads/threads_engine.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

constexpr std::int64_t kDefaultNewTokens = 256;
constexpr std::int64_t kDefaultTopK = 50;  // as in transformers
constexpr std::int64_t kMostNewTokens = std::int64_t{1} << 24;

struct GenerateArguments {
  std::string folder;
  std::string adapter;
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;
  bool chat = false;
  std::string system;
  std::optional<std::int64_t> max_new_tokens;
  bool greedy = false;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::uint64_t> seed;
  std::string host;
  std::string dtype = "bf16";
  std::size_t threads = num_usable_cores();
  bool ignore_eos = false;
  bool json = false;
};

// What the makers of the model want, where the user does not say otherwise.
Sampling choose_sampling(const GenerateArguments& arguments, const GenerationConfig& makers) {
  const bool asked = arguments.temperature || arguments.top_k || arguments.top_p || arguments.min_p;
  const bool greedy = arguments.greedy || (!asked && !makers.do_sample.value_or(false));
  return {.temperature = greedy ? 0 : arguments.temperature.value_or(makers.temperature.value_or(1)),
          .top_k = arguments.top_k.value_or(makers.top_k.value_or(kDefaultTopK)),
          .top_p = arguments.top_p.value_or(makers.top_p.value_or(1)),
          .min_p = arguments.min_p.value_or(makers.min_p.value_or(0)),
          .repetition_penalty = arguments.repetition_penalty.value_or(makers.repetition_penalty.value_or(1)),
          .seed = arguments.seed ? *arguments.seed : random_identity()};
}

// Ids need none.
std::unique_ptr<const Tokenizer> find_tokenizer(const GenerateArguments& arguments, const std::string& folder) {
  if (arguments.prompt_ids.empty()) return load_tokenizer(folder);
  try {
    return find_tokenizer_file(folder) ? load_tokenizer(folder) : nullptr;
  } catch (const Error& error) {
    tell(fmt::format("sluice: ids without their text: {}", on_one_line(error.what(), kMaxSentenceBytes)));
    return nullptr;
  }
}

std::vector<std::int32_t> read_prompt(const GenerateArguments& arguments, const std::string& folder,
                                      const Tokenizer* tokenizer) {
  if (!arguments.prompt_ids.empty()) return arguments.prompt_ids;
  if (arguments.prompt.empty())
    throw InvalidInput("there is no prompt; give one with --prompt, or ids with --prompt-ids");
  std::vector<TokenId> ids;
  if (arguments.chat) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    if (!arguments.system.empty()) messages.push_back({{"role", "system"}, {"content", arguments.system}});
    messages.push_back({{"role", "user"}, {"content", arguments.prompt}});
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string text = ChatTemplate::load(folder).render_text(
        messages, {.generation_prompt = RenderOptions::GenerationPrompt::kAdd,
                   .unix_time_s = std::chrono::duration_cast<std::chrono::seconds>(now).count()});
    ids = tokenizer->encode(text, AddSpecial::kNo);  // the template has written the special tokens
  } else {
    ids = tokenizer->encode(arguments.prompt, AddSpecial::kYes);
  }
  if (ids.empty()) throw InvalidInput("the prompt has no tokens; give a longer one");
  return {ids.begin(), ids.end()};
}

std::vector<std::int64_t> end_ids(const GenerateArguments& arguments, const GenerationConfig& makers,
                                  const Tokenizer* tokenizer) {
  if (arguments.ignore_eos) return {};
  std::vector<std::int64_t> ids = makers.eos_token_ids;
  if (ids.empty() && tokenizer != nullptr && tokenizer->eos_id()) ids.push_back(*tokenizer->eos_id());
  return ids;
}

GenerationConfig read_makers_wishes(const ModelFolder& folder, const ConfigReader& config) {
  GenerationConfig makers = parse_generation_config(config);
  makers.max_length.reset();  // older configs have every setting's default
  if (!folder.generation_config) return makers;
  GenerationConfig own = parse_generation_config(read_config(*folder.generation_config));
  if (own.eos_token_ids.empty()) own.eos_token_ids = makers.eos_token_ids;
  return own;
}

// How many tokens the makers want after a prompt.
std::int64_t wanted_tokens(const GenerationConfig& makers, std::int64_t prompt_tokens) {
  if (makers.max_new_tokens) return *makers.max_new_tokens;
  if (!makers.max_length) return kDefaultNewTokens;
  const std::int64_t left = *makers.max_length - prompt_tokens;
  if (left > 0) return left;
  throw InvalidInput(
      fmt::format("the prompt has {} tokens, but the model's max_length is {}: shorten it, or say how "
                  "many may follow with --max-new-tokens",
                  prompt_tokens, *makers.max_length));
}

// Standard output as tokens come, or their ids where there is no tokenizer.
class Output {
 public:
  Output(const Tokenizer* tokenizer, bool live) : live_(live) {
    if (tokenizer != nullptr) stream_.emplace(*tokenizer, SkipSpecial::kYes);
  }

  void token(std::int32_t id) {
    ids_.push_back(id);
    show(stream_ ? stream_->push(static_cast<TokenId>(id)) : fmt::format("{}{}", ids_.size() == 1 ? "" : " ", id));
  }
  void finish() {
    if (stream_) show(stream_->finish());
    if (live_) std::fputs("\n", stdout);
  }

  // A write to standard output has failed: the reader is gone, or the drive is full.
  bool is_lost() const { return std::ferror(stdout) != 0; }

  const std::vector<std::int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }

 private:
  void show(const std::string& text) {
    text_ += text;
    if (!live_ || text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);  // a token may be a zero byte
    std::fflush(stdout);
  }

  bool live_;
  std::optional<TokenStream> stream_;
  std::vector<std::int32_t> ids_;
  std::string text_;
};

// Learned positions end somewhere; turned ones go on, beyond what the model has seen.
std::int64_t room_for(const Architecture& arch, std::int64_t prompt_tokens, std::int64_t wanted_tokens) {
  if (arch.learned_positions == 0) return wanted_tokens;
  const std::int64_t left = arch.learned_positions - arch.position_offset - prompt_tokens;
  if (left <= 0) {
    throw InvalidInput(fmt::format("the prompt has {} tokens, but the model has positions for {}: shorten it",
                                   prompt_tokens, arch.learned_positions - arch.position_offset));
  }
  return std::min(wanted_tokens, left);
}

// The whole document's tokens. What the user asks for is kept to, or refused where it is made room for; what the makers
// ask for gives way to memory.
std::int64_t choose_capacity(const GenerateArguments& arguments, const GenerationConfig& makers,
                             const Architecture& arch, std::int64_t prompt_tokens, MemoryPlan plan) {
  const std::int64_t wanted =
      arguments.max_new_tokens ? *arguments.max_new_tokens : wanted_tokens(makers, prompt_tokens);
  const std::int64_t new_tokens = room_for(arch, prompt_tokens, std::clamp(wanted, std::int64_t{1}, kMostNewTokens));
  plan.capacity_tokens = prompt_tokens + new_tokens;
  if (arguments.max_new_tokens) return plan.capacity_tokens;
  const std::int64_t least = prompt_tokens + std::min(new_tokens, kDefaultNewTokens);
  const std::optional<std::int64_t> room = ModelMemory::room_tokens(arch, plan, least);
  if (room && *room < plan.capacity_tokens) {
    tell(fmt::format(
        "sluice: generation_config.json allows {} new tokens, but the memory beside the weights holds {}: raise "
        "--host for more, or say how many with --max-new-tokens",
        new_tokens, *room - prompt_tokens));
  }
  return room.value_or(least);
}

void generate(const GenerateArguments& arguments) {
  if (arguments.folder.empty() && arguments.adapter.empty()) {
    throw InvalidInput("there is no model; name its folder, as in: sluice generate MODEL --prompt \"The gate\"");
  }
  PosixFileSystem files;
  ThreadsEngine engine(4);
  const OpenModel opened(files, engine, {.model = arguments.folder, .adapter = arguments.adapter});
  const Architecture& arch = opened.description().arch;
  const GenerationConfig makers = read_makers_wishes(opened.folder(), opened.config());
  const Sampling sampling = choose_sampling(arguments, makers);
  if (!makers.others.empty()) {
    tell(fmt::format("sluice: {} asks for {}, which Sluice does not do: what follows is generated without",
                     opened.folder().generation_config.value_or(opened.config().where()),
                     fmt::join(makers.others, ", ")));
  }
  const std::unique_ptr<const Tokenizer> tokenizer = find_tokenizer(arguments, opened.text_folder());
  const std::vector<std::int32_t> prompt = read_prompt(arguments, opened.text_folder(), tokenizer.get());
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.size());
  MemoryPlan plan{.budget_bytes = host_budget(arguments.host, arguments.threads),
                  .dtype = parse_dtype_option(arguments.dtype),
                  .num_threads = std::max<std::size_t>(arguments.threads, 1)};
  plan.capacity_tokens = choose_capacity(arguments, makers, arch, prompt_tokens, plan);
  const std::int64_t max_new_tokens = plan.capacity_tokens - prompt_tokens;
  Sampler sampler(sampling);

  WorkDisplay display;
  const ProgressSink progress = display.sink();
  SteadyClock clock;
  Stopwatch load_time(clock);
  ModelMemory memory(opened.parts(), plan, progress);
  display.finish();
  const double load_s = load_time.seconds();

  Stopwatch prompt_time(clock);
  Generator& generator = memory.generator();
  generator.read(prompt, progress.interrupted);
  const double prompt_s = prompt_time.seconds();

  Output output(tokenizer.get(), !arguments.json);
  if (!arguments.json && tokenizer && !arguments.chat) std::fputs(arguments.prompt.c_str(), stdout);
  Stopwatch write_time(clock);
  const FinishReason reason = continue_document(
      generator, sampler, {.max_new_tokens = max_new_tokens, .end_ids = end_ids(arguments, makers, tokenizer.get())},
      [&](std::int32_t id) {
        output.token(id);
        return !progress.interrupted() && !output.is_lost();
      });
  output.finish();
  const double write_s = write_time.seconds();
  const auto rate = [](std::size_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"text", tokenizer ? nlohmann::ordered_json(output.text()) : nullptr},
                                              {"ids", output.ids()},
                                              {"prompt_ids", prompt},
                                              {"finish_reason", name(reason)},
                                              {"seed", sampling.seed},
                                              {"weights", memory.streams() ? "streamed" : "resident"},
                                              {"load_s", load_s},
                                              {"prompt_tokens_per_s", rate(prompt.size(), prompt_s)},
                                              {"tokens_per_s", rate(output.ids().size(), write_s)}}
                           .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!output.is_lost()) {
    display.screen().print(
        fmt::format("\n{} tokens read at {:.1f}/s, {} written at {:.1f}/s; weights {}; stopped: {}{}", prompt.size(),
                    rate(prompt.size(), prompt_s), output.ids().size(), rate(output.ids().size(), write_s),
                    memory.streams() ? "streamed from the drive" : "in memory", name(reason),
                    sampling.temperature > 0 ? fmt::format("; seed {}", sampling.seed) : ""));
  }
  if (reason == FinishReason::kInterrupted && !output.is_lost()) throw Cancelled("interrupted");
}

}  // namespace

void add_generate_verb(CLI::App& app) {
  const auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* const verb = app.add_subcommand("generate", "Let a model continue a prompt");
  add_model_option(*verb, arguments->folder);
  add_adapter_option(*verb, arguments->adapter);
  verb->add_option("--prompt", arguments->prompt, "What to continue");
  verb->add_option("--prompt-ids", arguments->prompt_ids, "Token ids instead of a prompt: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);  // one argument only, so that the model may follow
  verb->add_flag("--chat", arguments->chat, "Put the prompt into the model's chat template as the user's message");
  verb->add_option("--system", arguments->system, "The system message, with --chat");
  verb->add_option("--max-new-tokens", arguments->max_new_tokens,
                   fmt::format("Stop after this many (default: what the model's makers say, or {})", kDefaultNewTokens))
      ->check(CLI::Range(std::int64_t{1}, kMostNewTokens));
  verb->add_flag("--greedy", arguments->greedy, "Always the most likely token");
  verb->add_option("--temperature", arguments->temperature, "Draw: 0 is greedy, above 1 is wilder");
  verb->add_option(
      "--top-k", arguments->top_k,
      fmt::format("Draw among this many of the most likely; 0: all (default: what the model's makers say, or {})",
                  kDefaultTopK));
  verb->add_option("--top-p", arguments->top_p, "Draw among the most likely that together have this probability");
  verb->add_option("--min-p", arguments->min_p, "Leave out tokens less likely than this part of the likeliest");
  verb->add_option("--repetition-penalty", arguments->repetition_penalty,
                   "Make tokens that are there already less likely: above 1");
  verb->add_option("--seed", arguments->seed, "Sampling seed (default: another one each time)");
  add_host_option(*verb, arguments->host);
  verb->add_option("--dtype", arguments->dtype, "Compute in bf16 or f32")->capture_default_str();
  verb->add_option("--threads", arguments->threads, "Threads to compute with")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb->add_flag("--ignore-eos", arguments->ignore_eos, "Go on when the model ends its text");
  verb->add_flag("--json", arguments->json, "Print one JSON object at the end");
  verb->callback([arguments] { generate(*arguments); });
}

}  // namespace sluice
