#include "proxy/ops/decider/settings.h"

namespace elastripe::decider {

namespace {

uint32_t ms_of(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

node::ClusterSettings cluster_settings(const DeciderSettings& settings) {
  node::ClusterSettings own;
  own.heartbeat_ms = ms_of(settings.heartbeat);
  own.suspect_after_ms = ms_of(settings.suspect_after);
  own.lease_ms = own.longest_lease_ms = ms_of(settings.lease);
  own.refused_is_dead = settings.refused_is_dead;
  own.text = settings.cluster_text;
  return own;
}

bool follow_cluster(DeciderSettings& settings, const node::ClusterMap& map) {
  if (map.settings.version == 0) return false;
  const DeciderSettings before = settings;
  settings.heartbeat = std::chrono::milliseconds(map.settings.heartbeat_ms);
  settings.suspect_after = std::chrono::milliseconds(map.settings.suspect_after_ms);
  settings.lease = std::chrono::milliseconds(map.settings.lease_ms);
  settings.refused_is_dead = map.settings.refused_is_dead;
  return settings != before;
}

void take_times(DeciderSettings& settings, const DeciderSettings& from) {
  settings.heartbeat = from.heartbeat;
  settings.suspect_after = from.suspect_after;
  settings.lease = from.lease;
  settings.refused_is_dead = from.refused_is_dead;
}

}  // namespace elastripe::decider
