// What a node has to be and to know to answer for a key (docs/node-protocol.md, "Roles" and
// "Synced").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server-patches/node/engine/answer.h"
#include "server-patches/node/engine/context.h"
#include "server-patches/node/format/messages.h"

namespace elastripe::node {

// kDamaged: synced, but for this copy.
enum class Knowledge { kSynced, kDamaged, kNotSynced, kLost };

// Whether `self` is among the first `count` homes of the partition.
bool is_home(const Partition& partition, NodeId self, size_t count);
// Why this node has not got `role` for a key of a pool with m parities, or nothing.
std::optional<Answer> check_role(const Context& c, size_t partition_number, Role role, uint8_t m);
// Why the key can not be answered for.
std::optional<Answer> check_knowledge(Knowledge knowledge);

}  // namespace elastripe::node
