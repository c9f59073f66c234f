// Capabilities: what a build can do beyond the first of its kind, so that nodes and proxies of a
// cluster can be replaced by newer ones one after the other. docs/node-protocol.md, "Capabilities".
//
// How a format grows: new fields of messages, maps and records come at their end. Who does not know
// them leaves them alone, and who misses them takes what "nothing was said" means. What belongs to
// the elements of a list comes as a list of its own at the end.
//
// What must not be ignored, a new opcode among it, is a capability. Nodes tell theirs in HELLO, the
// map has those that all members have, and only these are used.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace elastripe::node {

// Values are bits on the wire: never renumber.
enum class Capability : uint8_t {
  kMovedShards = 0,        // a segment may name shards by txids of their own
  kMembers = 1,            // maps say who the members are, and which of them are leaving
  kShardFingerprints = 2,  // SHARD_FINGERPRINT
  kShardPatches = 3,       // SHARD_PATCH
  kUpdateLogs = 4,         // LOG_*, and what other frames carry of update logs
  kShardUpdates = 5,       // SHARD_UPDATE, LOG_APPEND without bytes
  kUnnumberedUpdates = 6,  // LOG_CANCEL, updates that copies have without a number
  kMarks = 7,              // marks and given cas in contents; uses that reads note and tell
  kSettings = 8,           // maps say what all proxies follow, whatever their files say
  kMapChanges = 9,         // maps that INSTALL_MAP tells as changes of the one before
  kEvenRing = 10,          // partitions begin on the ring where no node has too many
};

class CapabilitySet {
 public:
  constexpr CapabilitySet() = default;
  constexpr explicit CapabilitySet(uint64_t bits) : bits_(bits) {}

  constexpr bool has(Capability capability) const { return (bits_ & bit(capability)) != 0; }
  constexpr bool has_all(CapabilitySet others) const { return (others.bits_ & ~bits_) == 0; }
  constexpr CapabilitySet with(CapabilitySet others) const {
    return CapabilitySet(bits_ | others.bits_);
  }
  constexpr CapabilitySet without(CapabilitySet others) const {
    return CapabilitySet(bits_ & ~others.bits_);
  }
  constexpr CapabilitySet common_with(CapabilitySet others) const {
    return CapabilitySet(bits_ & others.bits_);
  }
  constexpr uint64_t bits() const { return bits_; }
  friend constexpr bool operator==(CapabilitySet, CapabilitySet) = default;

 private:
  static constexpr uint64_t bit(Capability capability) {
    return uint64_t{1} << static_cast<unsigned>(capability);
  }
  uint64_t bits_ = 0;
};

// What this build has.
CapabilitySet own_capabilities();
// What two peers agree on between themselves: no map says that a cluster uses it, so that an older
// build is none the worse for it.
CapabilitySet peer_capabilities();

// Names with commas between them, for people; those of newer builds as "bit 7"; "none".
std::string to_string(CapabilitySet capabilities);

}  // namespace elastripe::node
