#include "tests/sim/settings_changes.h"

#include <algorithm>

using namespace elastripe::decider;

namespace elastripe::sim {

void SettingsChanges::ask(SimProxy& proxy, const node::ClusterMap& of, uint32_t lease_ms) {
  const size_t index = changes_.size();
  SettingsChange change{
      .of_version = of.settings.version, .max_parities = of.max_parities, .settings = of.settings};
  change.settings.lease_ms = lease_ms;
  change.settings.text = fmt::format("# change {}\n", index);
  run_.trace.add("change {} asks proxy {}: leases of {} ms, in place of version {}", index,
                 proxy.id(), lease_ms, of.settings.version);
  changes_.push_back(
      {.text = change.settings.text, .version = of.settings.version + 1, .asked = &proxy});
  proxy.do_task(std::move(change),
                [this, index](const DeciderAnswer& answer) { hear(index, answer); });
}

void SettingsChanges::hear(size_t index, const DeciderAnswer& answer) {
  Change& change = changes_[index];
  run_.trace.add("change {} ends: {}", index, answer ? "done" : to_string(answer.error()));
  if (answer) {
    change.state = State::kDone;
    change.done_before = newest_number_();
    ++run_.totals.settings_changed;
  } else {
    const bool is_unknown = answer.error().code == ErrorCode::kUnknownOutcome;
    change.state = is_unknown ? State::kUnknown : State::kRefused;
    run_.totals.settings_unknown += is_unknown;
  }
}

void SettingsChanges::look(const node::ClusterMap& served) {
  const node::ClusterSettings& settings = served.settings;
  for (size_t index = 0; index < changes_.size(); ++index) {
    const Change& change = changes_[index];
    const bool has_it = settings.text == change.text;
    if (change.state == State::kRefused && has_it) {
      run_.violation(Fault::kLost, fmt::format("epoch {} is served with change {}, which was "
                                               "refused",
                                               served.epoch.number, index));
    }
    if (change.state != State::kDone) continue;
    const bool is_later = served.epoch.number > change.done_before;
    const bool is_before = settings.version < change.version;
    if ((is_later && is_before) || (settings.version == change.version && !has_it)) {
      run_.violation(Fault::kLost,
                     fmt::format("epoch {} is served with version {} of the settings, and change "
                                 "{} was acknowledged as version {}",
                                 served.epoch.number, settings.version, index, change.version));
    }
  }
}

bool SettingsChanges::are_answered() const {
  return std::ranges::none_of(changes_, [](const Change& change) {
    return change.state == State::kOpen && change.asked->is_alive();
  });
}

void SettingsChanges::check() {
  constexpr Duration kLimit = kRequestTimeout + std::chrono::seconds(1);
  if (run_.until_promptly(kLimit, [this] { return are_answered(); })) return;
  run_.violation(Fault::kStuck, "a change of the settings is not answered");
}

}  // namespace elastripe::sim
