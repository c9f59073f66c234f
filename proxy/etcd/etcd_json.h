// What the JSON gateway of etcd's API v3 is asked, and what it answers. Its 64-bit numbers are
// decimal text, keys and values are base64, and what is zero or empty is left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/cluster/etcd_client.h"

namespace elastripe::etcd_json {

std::string log_in(std::string_view user, std::string_view password);
std::string grant(Duration ttl);  // whole seconds, rounded up
std::string of_lease(etcd::LeaseId id);
std::string find(std::string_view prefix);
std::string write(const etcd::Write& write);
std::string watch(std::string_view prefix, etcd::Revision since);

// A refusal: the code of gRPC, and why; code -1: what it says is no error of etcd.
struct Refusal {
  int code = -1;
  std::string message;
};
Refusal parse_refusal(std::string_view body);

// Nothing: it is no such answer.
std::optional<std::string> parse_token(std::string_view body);
std::optional<etcd::Lease> parse_grant(std::string_view body);
// A lease without time is over.
std::optional<etcd::Lease> parse_keep_alive(std::string_view body);
std::optional<etcd::Found> parse_find(std::string_view body);
std::optional<etcd::Revision> parse_write(std::string_view body);
// A watch's answer is a line for each thing that it tells: first that it has begun.
bool is_told(std::string_view so_far);  // changes, or why there are none
struct Watched {
  bool has_begun = false;
  bool is_forgotten = false;          // changes since then are gone
  etcd::Revision store_revision = 0;  // as the last line tells
  std::string refusal;                // why it has ended otherwise
  etcd::Changes changes;
};
// The last line may be cut off.
std::optional<Watched> parse_watch(std::string_view lines, etcd::Revision since);

}  // namespace elastripe::etcd_json
