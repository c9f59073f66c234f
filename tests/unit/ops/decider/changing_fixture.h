// A cluster whose operator asks those who decide for changes, and hears later what became of them.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/ops/cluster_fixture.h"

namespace elastripe {

class ChangingFixture : public ClusterFixture {
 public:
  template <class T>
  using Told = std::optional<Result<T>>;

  explicit ChangingFixture(size_t nodes = 5) : ClusterFixture(nodes, "rs:2,1") {}
  ~ChangingFixture() {
    for (sim::SimProxy* proxy : asked_) {
      if (proxy->is_alive()) proxy->kill();
    }
    run_until([&] { return scope_.live() == 0; });
  }

  sim::SimProxy& add_serving() {
    sim::SimProxy& proxy = add_decider();
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
    return proxy;
  }
  // The proxy is asked by this flow, for which nobody waits.
  template <class T>
  Told<T>& ask(sim::SimProxy& proxy, Task<Result<T>> flow) {
    const auto told = std::make_shared<Told<T>>();
    answers_.push_back(told);
    asked_.push_back(&proxy);
    scope_.spawn([](Task<Result<T>> what, Told<T>& out) -> Task<void> {
      out = co_await std::move(what);
    }(std::move(flow), *told));
    return *told;
  }
  // And is waited for.
  template <class T>
  Result<T> have(sim::SimProxy& proxy, Task<Result<T>> flow) {
    Told<T>& told = ask(proxy, std::move(flow));
    REQUIRE(run_until([&] { return told.has_value(); }));
    return *told;
  }
  // The node gets no map of this proxy, and answers it as ever.
  void hold_maps_back(node::NodeId from, int of) {
    network().set_delay_rule([=](int proxy, node::NodeId to, const node::RequestHeader& header) {
      const bool is_held = proxy == of && to == from && header.opcode == node::Opcode::kInstallMap;
      return is_held ? std::optional<Duration>(std::chrono::seconds(1000)) : std::nullopt;
    });
  }
  // Only node 0 gets what this proxy makes from now on, and the next proxy does not see that.
  void cut_off_with_node_0(sim::SimProxy& proxy) {
    const size_t nodes = decider_settings.nodes.size();
    for (node::NodeId id = 1; id < nodes; ++id) network().cut(proxy.id(), id);
    network().cut(proxy.id() + 1, 0);
  }

  template <class T>
  static bool is_unknown(const Told<T>& told) {
    return told && !*told && told->error().code == ErrorCode::kUnknownOutcome &&
           told->error().message.find("is not served yet") != std::string::npos;
  }

 private:
  std::list<std::shared_ptr<void>> answers_;
  std::vector<sim::SimProxy*> asked_;
  Scope scope_;
};

}  // namespace elastripe
