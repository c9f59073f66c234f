#include "proxy/admin/member_actions.h"

#include <utility>

#include "proxy/admin/job_body.h"
#include "proxy/base/names.h"

namespace elastripe {
namespace {

using Kind = MemberChange::Kind;

constexpr std::pair<std::string_view, Kind> kActions[] = {
    {"add", Kind::kAdd},
    {"drain", Kind::kDrain},
    {"refill", Kind::kRefill},
    {"remove", Kind::kRemove},
};

constexpr uint64_t kMaxPort = 65535;

// Node ids of a new member come from the list that it joins.
Result<void> read_new_node(std::string_view body, bool is_network_trusted, node::NodeInfo& node) {
  auto fields = JobBody::parse(body);
  if (!fields) return fail(std::move(fields.error()));
  const auto host = fields->text("host");
  const auto port = fields->number("port", 1, kMaxPort);
  const auto domain = fields->text("domain");
  fields->complain_of_unknown();
  if (!host) {
    fields->complain("host", "is missing");
  } else if (!is_host(*host)) {
    fields->complain("host", "must be a host name or an IP address");
  } else if (!is_network_trusted && !is_loopback(*host)) {
    fields->complain("host",
                     "can be reached from other machines and there is no authentication yet: set "
                     "'insecure: true' in the configuration if the network is trusted");
  }
  if (!port) fields->complain("port", "is missing");
  if (domain && !is_name(*domain)) {
    fields->complain("domain", "must be 1..64 letters, digits, '.', '_' or '-'");
  }
  if (auto checked = fields->check(); !checked) return checked;
  node.host = *host;
  node.port = static_cast<uint16_t>(*port);
  node.domain = domain.value_or("");
  return {};
}

}  // namespace

std::optional<Kind> member_action(std::string_view action) {
  for (const auto& [name, kind] : kActions) {
    if (name == action) return kind;
  }
  return std::nullopt;
}

Result<MemberChange> parse_member_change(Kind kind, std::string name, std::string_view body,
                                         bool is_network_trusted) {
  if (!is_name(name)) {
    return fail(ErrorCode::kInvalid, "a node's name is 1..{} letters, digits, '.', '_' or '-'",
                kMaxNameBytes);
  }
  MemberChange change{.kind = kind, .node = {}};
  change.node.name = std::move(name);
  if (kind == Kind::kAdd) {
    if (auto read = read_new_node(body, is_network_trusted, change.node); !read) {
      return fail(read.error());
    }
  }
  return change;
}

}  // namespace elastripe
