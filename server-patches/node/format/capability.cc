#include "server-patches/node/format/capability.h"

#include <string_view>

namespace elastripe::node {
namespace {

struct CapabilityName {
  Capability capability;
  std::string_view name;
};
constexpr std::array kCapabilities = {
    CapabilityName{Capability::kMovedShards, "moved_shards"},
    CapabilityName{Capability::kMembers, "members"},
    CapabilityName{Capability::kShardFingerprints, "shard_fingerprints"},
    CapabilityName{Capability::kShardPatches, "shard_patches"},
    CapabilityName{Capability::kUpdateLogs, "update_logs"},
    CapabilityName{Capability::kShardUpdates, "shard_updates"},
    CapabilityName{Capability::kUnnumberedUpdates, "unnumbered_updates"},
    CapabilityName{Capability::kMarks, "marks"},
    CapabilityName{Capability::kSettings, "settings"},
    CapabilityName{Capability::kMapChanges, "map_changes"},
    CapabilityName{Capability::kEvenRing, "even_ring"},
};

constexpr CapabilitySet kAll = [] {
  uint64_t bits = 0;
  for (const auto& [capability, name] : kCapabilities) {
    bits |= uint64_t{1} << static_cast<unsigned>(capability);
  }
  return CapabilitySet(bits);
}();

// Programs that stand for an older build, to try upgrades with, are compiled without some.
#ifdef ELASTRIPE_WITHOUT_CAPABILITIES
constexpr CapabilitySet kWithout(ELASTRIPE_WITHOUT_CAPABILITIES);
#else
constexpr CapabilitySet kWithout;
#endif

}  // namespace

CapabilitySet own_capabilities() { return kAll.without(kWithout); }

CapabilitySet peer_capabilities() {
  return CapabilitySet(uint64_t{1} << static_cast<unsigned>(Capability::kMapChanges));
}

std::string to_string(CapabilitySet capabilities) {
  std::string text;
  for (unsigned number = 0; number < 64; ++number) {
    const auto capability = static_cast<Capability>(number);
    if (!capabilities.has(capability)) continue;
    if (!text.empty()) text += ", ";
    std::string name = "bit " + std::to_string(number);
    for (const auto& known : kCapabilities) {
      if (known.capability == capability) name = known.name;
    }
    text += name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace elastripe::node
