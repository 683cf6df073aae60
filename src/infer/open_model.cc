// SPDX-License-Identifier: Apache-2.0
#include "infer/open_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/own_head.h"
#include "model/resident_adapter.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sluice {
namespace {

std::optional<AdapterFolder> open_adapter(FileSystem& files, IoEngine& engine, const std::string& path) {
  if (path.empty()) return std::nullopt;
  return std::optional<AdapterFolder>(std::in_place, files, engine, path);
}

std::string base_folder(const ModelChoice& choice, const std::optional<AdapterFolder>& adapter) {
  if (!choice.model.empty()) return choice.model;
  if (!adapter) throw InvalidInput("there is no model; name its folder");
  if (!adapter->config().base_model.empty()) return adapter->config().base_model;
  throw InvalidInput(
      fmt::format("{} names no base_model_name_or_path; name the base's folder with --model", adapter->config().where));
}

ModelDescription describe(const ConfigReader& config, const Checkpoint& checkpoint,
                          const std::optional<AdapterFolder>& adapter) {
  ModelDescription model = with_own_head(describe_model(config), checkpoint);
  return adapter ? describe_adapted(std::move(model), *adapter) : model;
}

std::string choose_text_folder(const std::string& model, const std::string& adapter) {
  if (adapter.empty() || !find_tokenizer_file(adapter)) return model;
  return find_chat_template(adapter) || !find_chat_template(model) ? adapter : model;
}

}  // namespace

OpenModel::OpenModel(FileSystem& files, IoEngine& engine, const ModelChoice& choice)
    : adapter_(open_adapter(files, engine, choice.adapter)),
      folder_(look_into_model_folder(files, base_folder(choice, adapter_))),
      config_(read_model_config(folder_)),
      checkpoint_(files, engine, folder_.path),
      model_(describe(config_, checkpoint_, adapter_)),
      slices_(checkpoint_, model_),
      text_folder_(choose_text_folder(folder_.path, choice.adapter)) {}

}  // namespace sluice
