#include "server-patches/node/update/parity_logs.h"

#include <utility>

namespace elastripe::node {

size_t ParityLogs::bytes(const ShardName& name) const {
  if (empty()) return 0;
  const std::lock_guard lock(mutex_);
  const auto at = logs_.find(name);
  return at == logs_.end() ? 0 : at->second.bytes;
}

void ParityLogs::append(const ShardName& name, Entry entry, bool waits) {
  const std::lock_guard lock(mutex_);
  Log& log = logs_[name];
  log.bytes += entry.bytes.size();
  log.waits = waits;
  log.entries.push_back(std::move(entry));
  count_ = logs_.size();
}

ParityLogs::Log ParityLogs::take(const ShardName& name) {
  Log taken;
  const std::lock_guard lock(mutex_);
  const auto at = logs_.find(name);
  if (at == logs_.end()) return taken;
  taken = std::move(at->second);
  logs_.erase(at);
  count_ = logs_.size();
  return taken;
}

void ParityLogs::restore(const ShardName& name, Log log) {
  const std::lock_guard lock(mutex_);
  logs_[name] = std::move(log);
  count_ = logs_.size();
}

std::vector<ShardName> ParityLogs::next_names(size_t most) {
  std::vector<ShardName> names;
  if (empty()) return names;
  const std::lock_guard lock(mutex_);
  auto at = logs_.upper_bound(named_);
  for (size_t n = 0; n < logs_.size() && names.size() < most; ++n, ++at) {
    if (at == logs_.end()) at = logs_.begin();
    if (!at->second.waits) names.push_back(at->first);
  }
  if (!names.empty()) named_ = names.back();
  return names;
}

}  // namespace elastripe::node
