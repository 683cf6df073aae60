// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <gtest/gtest.h>

#include "model/description.h"
#include "model/known_shapes.h"

namespace sluice {
namespace {

Architecture known_arch(const std::string& name) {
  return describe_model(ConfigReader("config.json", nlohmann::json(known_config(name)))).arch;
}

PlanRequest whole_machine(const std::string& machine_file, const std::string& model) {
  PlanRequest request{.model = model, .arch = known_arch(model)};
  request.machine = read_machine(SLUICE_MACHINES "/" + machine_file);
  request.sequence_len = 4096;
  request.accumulation = 8;
  request.budgets = {.device = request.machine.device.size_bytes * 9 / 10,
                     .host = request.machine.host.size_bytes * 9 / 10,
                     .drives = request.machine.drives_size_bytes() * 19 / 20};
  return request;
}

TEST(Planner, X) {
  for (const char* file : {"one-ada.json", "consumer-16gb.json", "h200.json"}) {
    for (const char* model : {"llama-3.1-8b", "llama-3.1-70b"}) {
      try {
        const Plan plan = make_plan(whole_machine(file, model));
        printf(
            "%s %s step %.2f s tokens/s %.0f bound %d compute %.2f opt %.2f read %.2f write %.2f h2d %.2f d2h %.2f "
            "wave %ld group %ld b %d wp %zu gp %zu bp %zu\n",
            file, model, plan.forecast.step_s, plan.tokens_per_s(), (int)plan.forecast.bound,
            plan.forecast.load.of(Lane::kCompute), plan.forecast.load.of(Lane::kCpuOptimizer),
            plan.forecast.load.of(Lane::kNvmeToHost), plan.forecast.load.of(Lane::kHostToNvme),
            plan.forecast.load.of(Lane::kHostToDevice), plan.forecast.load.of(Lane::kDeviceToHost), plan.schedule.wave,
            plan.schedule.group, (int)plan.schedule.boundaries, plan.schedule.weight_places,
            plan.schedule.gradient_places, plan.schedule.boundary_places);
      } catch (const NoPlanFits& e) {
        printf("%s %s %s\n", file, model, e.what());
        for (auto& c : e.changes()) printf("   %s\n", c.text.c_str());
      }
    }
  }
}

}  // namespace
}  // namespace sluice
