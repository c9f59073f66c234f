#include "proxy/etcd/etcd_json.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "proxy/base/base64.h"

namespace elastripe::etcd_json {

using etcd::Change;
using etcd::Changes;
using etcd::Found;
using etcd::KeyValue;
using etcd::Lease;
using etcd::LeaseId;
using etcd::Revision;
using Json = nlohmann::json;

namespace {

constexpr int64_t kLastCode = 16;  // of gRPC

std::string text(int64_t number) { return std::to_string(number); }

// The key behind all that begin with it, as etcd's clients ask for prefixes.
std::string end_of(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return std::string(1, '\0');
  ++end.back();
  return end;
}

Json object(std::string_view body) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  // Moved, as a copy recurses: what comes may be nested deeply.
  return json.is_object() ? std::move(json) : Json();
}

const Json* find_field(const Json& json, const char* field) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(field);
  return found == json.end() ? nullptr : &*found;
}

// Empty if it is left out, or is none.
std::string text_of(const Json& json, const char* field) {
  const Json* value = find_field(json, field);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_text_if_any(const Json& json, const char* field) {
  const Json* value = find_field(json, field);
  return value == nullptr || value->is_string();
}

bool is_text(const Json& json, const char* field) {
  const Json* value = find_field(json, field);
  return value != nullptr && value->is_string();
}

// False if it is left out; nothing if it is none.
std::optional<bool> flag_of(const Json& json, const char* field) {
  const Json* value = find_field(json, field);
  if (value == nullptr) return false;
  return value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

// Zero if it is left out; nothing if it is none.
std::optional<int64_t> number_of(const Json& json, const char* field) {
  const Json* value = find_field(json, field);
  if (value == nullptr) return 0;
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (value->is_number_integer()) return value->get<int64_t>();
  if (!value->is_string()) return std::nullopt;
  const auto& digits = value->get_ref<const std::string&>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<Revision> revision_of(const Json& json) {
  const Json* header = find_field(json, "header");
  if (header == nullptr) return std::nullopt;
  const auto revision = number_of(*header, "revision");
  return revision && *revision > 0 ? revision : std::nullopt;
}

std::optional<Lease> lease_of(const Json& json) {
  constexpr int64_t kMostSeconds = 1'000'000'000;
  const auto id = number_of(json, "ID");
  const auto ttl = number_of(json, "TTL");
  if (!id || *id == 0 || !ttl || *ttl < 0 || *ttl > kMostSeconds) return std::nullopt;
  return Lease{.id = *id, .ttl = std::chrono::seconds(*ttl)};
}

std::optional<KeyValue> pair_of(const Json& json) {
  if (!is_text_if_any(json, "value")) return std::nullopt;
  const auto key = decode_base64(text_of(json, "key"));
  const auto value = decode_base64(text_of(json, "value"));
  const auto lease = number_of(json, "lease");
  const auto revision = number_of(json, "mod_revision");
  if (!key || key->empty() || !value || !lease || !revision || *revision <= 0) return std::nullopt;
  return KeyValue{.key = *key, .value = *value, .lease = *lease, .revision = *revision};
}

// A line of a watch; false: it is none.
bool read_line(const Json& json, Watched& watched) {
  const Json* result = find_field(json, "result");
  if (result == nullptr || !result->is_object()) return false;
  watched.has_begun = true;
  if (const auto revision = revision_of(*result)) watched.store_revision = *revision;
  const auto is_cancelled = flag_of(*result, "canceled");
  if (!is_cancelled) return false;
  if (*is_cancelled) {
    const auto compacted = number_of(*result, "compact_revision");
    watched.is_forgotten = compacted && *compacted > 0;
    if (watched.is_forgotten) return true;
    watched.refusal = text_of(*result, "cancel_reason");
    if (watched.refusal.empty()) watched.refusal = "it has ended the watch";
    return true;
  }
  const Json* events = find_field(*result, "events");
  if (events == nullptr) return true;
  if (!events->is_array()) return false;
  for (const Json& event : *events) {
    const Json* kv = find_field(event, "kv");
    auto pair = kv == nullptr ? std::nullopt : pair_of(*kv);
    const std::string type = text_of(event, "type");
    if (!pair || !is_text_if_any(event, "type")) return false;
    if (!type.empty() && type != "PUT" && type != "DELETE") return false;
    watched.changes.revision = std::max(watched.changes.revision, pair->revision);
    watched.changes.changes.push_back({.pair = std::move(*pair), .is_deletion = type == "DELETE"});
  }
  return true;
}

}  // namespace

std::string log_in(std::string_view user, std::string_view password) {
  return Json{{"name", user}, {"password", password}}.dump(-1, ' ', false,
                                                           Json::error_handler_t::replace);
}

std::string grant(Duration ttl) {
  return Json{{"TTL", text(std::chrono::ceil<std::chrono::seconds>(ttl).count())}}.dump();
}

std::string of_lease(LeaseId id) { return Json{{"ID", text(id)}}.dump(); }

std::string find(std::string_view prefix) {
  return Json{{"key", base64(prefix)}, {"range_end", base64(end_of(prefix))}}.dump();
}

std::string write(const etcd::Write& write) {
  Json puts = Json::array();
  for (const KeyValue& pair : write.pairs) {
    Json put = {{"key", base64(pair.key)}, {"value", base64(pair.value)}};
    if (pair.lease != 0) put["lease"] = text(pair.lease);
    puts.push_back({{"request_put", std::move(put)}});
  }
  const Json guard = {{"target", "MOD"},
                      {"result", "EQUAL"},
                      {"key", base64(write.guard)},
                      {"mod_revision", text(write.guard_revision)}};
  return Json{{"compare", Json::array({guard})}, {"success", std::move(puts)}}.dump();
}

std::string watch(std::string_view prefix, Revision since) {
  return Json{{"create_request",
               {{"key", base64(prefix)},
                {"range_end", base64(end_of(prefix))},
                {"start_revision", text(since + 1)}}}}
      .dump();
}

Refusal parse_refusal(std::string_view body) {
  // Where answers go on, each is a line, and errors are another kind of object.
  const Json json = object(body.substr(0, body.find('\n')));
  const Json* inner = find_field(json, "error");
  const Json& error = inner != nullptr && inner->is_object() ? *inner : json;
  const char* name = find_field(error, "code") != nullptr ? "code" : "grpc_code";
  const auto code = is_text(error, name) ? std::nullopt : number_of(error, name);
  if (!code || *code <= 0 || *code > kLastCode) return {};
  std::string message = text_of(error, "message");
  if (message.empty()) message = text_of(error, "error");
  return {.code = static_cast<int>(*code), .message = std::move(message)};
}

std::optional<std::string> parse_token(std::string_view body) {
  std::string token = text_of(object(body), "token");
  // It goes into a header.
  for (const char c : token) {
    if (c <= ' ' || c > '~') return std::nullopt;
  }
  return token.empty() ? std::nullopt : std::optional(std::move(token));
}

std::optional<Lease> parse_grant(std::string_view body) {
  const auto lease = lease_of(object(body));
  return lease && lease->ttl > Duration::zero() ? lease : std::nullopt;
}

std::optional<Lease> parse_keep_alive(std::string_view body) {
  const Json json = object(body);
  const Json* result = find_field(json, "result");
  return result == nullptr ? std::nullopt : lease_of(*result);
}

std::optional<Found> parse_find(std::string_view body) {
  const Json json = object(body);
  const auto revision = revision_of(json);
  if (!revision) return std::nullopt;
  Found found{.revision = *revision, .pairs = {}};
  const Json* pairs = find_field(json, "kvs");
  if (pairs == nullptr) return found;
  if (!pairs->is_array()) return std::nullopt;
  for (const Json& item : *pairs) {
    auto pair = pair_of(item);
    if (!pair) return std::nullopt;
    found.pairs.push_back(std::move(*pair));
  }
  return found;
}

std::optional<Revision> parse_write(std::string_view body) {
  const Json json = object(body);
  const auto revision = revision_of(json);
  const auto is_done = flag_of(json, "succeeded");
  if (!revision || !is_done) return std::nullopt;
  return *is_done ? *revision : 0;
}

bool is_told(std::string_view so_far) {
  for (size_t end; (end = so_far.find('\n')) != std::string_view::npos;) {
    Watched watched;
    const bool is_line = end == 0 || read_line(object(so_far.substr(0, end)), watched);
    const bool is_end = watched.is_forgotten || !watched.refusal.empty();
    if (!is_line || is_end || !watched.changes.changes.empty()) return true;
    so_far.remove_prefix(end + 1);
  }
  return false;
}

std::optional<Watched> parse_watch(std::string_view lines, Revision since) {
  Watched watched;
  watched.changes.revision = since;
  for (size_t end; (end = lines.find('\n')) != std::string_view::npos;) {
    if (end > 0 && !read_line(object(lines.substr(0, end)), watched)) return std::nullopt;
    lines.remove_prefix(end + 1);
  }
  // It is another store by now, of a time before.
  if (watched.store_revision != 0 && watched.store_revision < since) watched.is_forgotten = true;
  return watched;
}

}  // namespace elastripe::etcd_json
