// SPDX-License-Identifier: Apache-2.0
// The trainer's places on the device, as a RunFlow sees them: WeightFlow, GradientFlow and BoundaryFlow choose and wait
// as WeightPlaces, GradientPlaces and BoundaryPlaces of train/ do, in the same order. Each borrows what it is given.
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "plan/run_flow.h"
#include "plan/schedule.h"
#include "plan/slice_sizes.h"

namespace sluice {

class WeightFlow {
 public:
  using TaskId = RunFlow::TaskId;
  WeightFlow(RunFlow& flow, const Schedule& schedule, const std::vector<SliceSizes>& sizes);

  // `ready`: one a slice.
  void follow(std::vector<std::size_t> order, std::vector<TaskId> ready);
  void use(std::size_t slice_idx);
  void done(std::size_t slice_idx, TaskId used);

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  struct Place {
    std::size_t slice_idx = kNowhere;
    std::size_t num_users = 0;
    TaskId last_use = RunFlow::kNone;
    RunFlow::Arrival arrival;
  };

  bool is_home(std::size_t slice_idx) const { return schedule_.homes[slice_idx].weights == Home::kDevice; }
  Place* find(std::size_t slice_idx);
  Place* place_for(std::size_t position);
  void bring(Place& place, std::size_t slice_idx);
  void look_ahead();
  std::size_t next_use(std::size_t slice_idx);

  RunFlow& flow_;
  const Schedule& schedule_;
  const std::vector<SliceSizes>& sizes_;
  std::vector<Place> places_;
  std::vector<Place> small_;        // one a slice; used for small slices alone
  std::vector<std::size_t> where_;  // of each large slice: its place
  std::vector<std::size_t> order_;
  std::vector<std::vector<std::size_t>> uses_;
  std::vector<std::size_t> next_uses_;  // an index of uses_, for each slice
  std::vector<TaskId> ready_;
  std::size_t cursor_ = 0;
  std::size_t ahead_ = 0;  // everything before it in the order is there or on its way
};

class GradientFlow {
 public:
  using TaskId = RunFlow::TaskId;
  GradientFlow(RunFlow& flow, const Schedule& schedule, const std::vector<SliceSizes>& sizes,
               double memory_bytes_per_s);

  enum class Sum : std::uint8_t { kNew, kGoesOn };
  // Which of a slice's runs: the sum, or what the tokens add to a tied embedding.
  enum class Run : std::uint8_t { kSum, kLookup };
  void begin(std::size_t slice_idx, Run run, Sum sum);
  void prepare(std::size_t slice_idx);  // a sum that goes on
  void end(std::size_t slice_idx, Run run);
  void drop(std::size_t slice_idx, Run run);
  // A pass of the stream over the gradients, `times` their size.
  void touch(std::size_t slice_idx, double times);
  void wait();

 private:
  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  struct Place {
    std::size_t key = kNobody;
    bool leaves = false;
    bool arrives = false;
    RunFlow::Departure departure;
    RunFlow::Arrival arrival;
    TaskId last_use = RunFlow::kNone;
  };

  double run_bytes(std::size_t slice_idx) const;
  RunFlow::Arrival bring(std::size_t slice_idx, const Place& place);
  static std::size_t key_of(std::size_t slice_idx, Run run) { return 2 * slice_idx + (run == Run::kSum ? 0 : 1); }
  bool is_home(std::size_t slice_idx) const { return schedule_.homes[slice_idx].gradients == Home::kDevice; }
  Place& place_for(std::size_t slice_idx);
  Place& find(std::size_t key);

  RunFlow& flow_;
  const Schedule& schedule_;
  const std::vector<SliceSizes>& sizes_;
  double memory_bytes_per_s_;
  std::vector<Place> places_;
  std::vector<Place> small_;
  std::vector<TaskId> stored_;  // of each run's last departure
};

class BoundaryFlow {
 public:
  using TaskId = RunFlow::TaskId;
  struct Id {
    std::size_t batch_idx = 0;
    std::size_t layer_idx = 0;
  };
  struct Shape {
    std::size_t num_places = 0;
    std::vector<double> run_bytes;  // of each layer's boundary, with what waits there
  };
  BoundaryFlow(RunFlow& flow, const Schedule& schedule, Shape shape);

  void make(Id id);
  void leave(Id id);
  void follow(std::deque<Id> order);
  void take(Id id);
  void drop(Id id);

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  struct Place {
    std::size_t key = kNowhere;
    bool leaves = false;
    bool arrives = false;
    RunFlow::Departure departure;
    std::uint64_t departure_number = 0;
    RunFlow::Arrival arrival;
    TaskId last_use = RunFlow::kNone;
  };

  std::size_t key_of(Id id) const { return id.batch_idx * (shape_.run_bytes.size() + 1) + id.layer_idx; }
  std::size_t free_place();
  void look_ahead();

  RunFlow& flow_;
  Home home_;
  Shape shape_;
  std::vector<Place> places_;
  std::vector<std::size_t> where_;  // of each boundary: its place
  std::vector<TaskId> stored_;
  std::deque<Id> order_;
  std::uint64_t num_departures_ = 0;
};

}  // namespace sluice
