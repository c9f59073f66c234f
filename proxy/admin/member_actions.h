// What can be done with one node by its path, /v1/nodes/NAME/ACTION (docs/admin-api.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/cluster/members.h"

namespace elastripe {

// The actions that change who the members are: "add", "drain", "refill", "remove".
std::optional<MemberChange::Kind> member_action(std::string_view action);

// The change, out of the name in the path and the body: to add a node, its host, port and (if it is
// not alone in it) failure domain. kInvalid tells where and why; a node that others can reach needs
// a network that is trusted.
Result<MemberChange> parse_member_change(MemberChange::Kind kind, std::string name,
                                         std::string_view body, bool is_network_trusted);

}  // namespace elastripe
