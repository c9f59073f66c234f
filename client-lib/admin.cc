#include "client-lib/admin.h"

#include <algorithm>
#include <thread>

#include "client-lib/admin_interface.h"
#include "client-lib/fail.h"

namespace elastripe::client {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr size_t kIdleClients = 1;
constexpr const char* kTransitions = "/v1/transitions";
constexpr std::string_view kAction = "transition";

// In which proxies that did not begin a job have heard of it: two seconds, and some more.
constexpr std::chrono::milliseconds kHeard{5000};
constexpr std::chrono::milliseconds kHeardPause{50};

std::string path_of(uint64_t id) { return std::string(kTransitions) + "/" + std::to_string(id); }

// A field, or what there is without one of this type.
template <class T>
T field(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return T();
  const bool is_number = std::is_arithmetic_v<T>;
  return (is_number ? found->is_number() : found->is_string()) ? found->get<T>() : T();
}

TransitionReport report_of(const Json& json) {
  TransitionReport report{.id = field<uint64_t>(json, "id"),
                          .state = field<std::string>(json, "state"),
                          .reason = field<std::string>(json, "reason"),
                          .counts = {},
                          .json = json.dump()};
  if (!json.contains("counts")) return report;
  for (const auto& [name, count] : json["counts"].items()) {
    if (count.is_number()) report.counts[name] = count;
    if (!count.is_object()) continue;
    uint64_t& sum = report.counts[name];
    for (const auto& part : count) sum += part.is_number() ? part.get<uint64_t>() : 0;
  }
  return report;
}

Result<TransitionReport> report_of(const Result<Json>& json) {
  if (!json) return std::unexpected(json.error());
  return report_of(*json);
}

ObjectInfo info_of(const Json& json) {
  ObjectInfo info{.kind = field<std::string>(json, "kind"),
                  .size = field<uint64_t>(json, "size"),
                  .scheme = field<std::string>(json, "scheme"),
                  .missing_shards = field<uint64_t>(json, "missing_shards"),
                  .unreachable_shards = field<uint64_t>(json, "unreachable_shards"),
                  .homes = {},
                  .json = json.dump()};
  if (!json.contains("homes")) return info;
  for (const auto& home : json["homes"]) {
    if (home.is_string()) info.homes.push_back(home);
  }
  return info;
}

// The body of a request for a transition; kInvalid unless exactly one of key, prefix, all is named.
Result<Json> body_of(unsigned to, const TransitionOptions& options) {
  Json body{{"to", to},
            {"dry_run", options.dry_run},
            {"rate", options.rate},
            {"parallel", options.parallel}};
  const int named =
      int{options.key.has_value()} + int{options.prefix.has_value()} + int{options.all};
  if (named != 1) return fail(ErrorKind::kInvalid, "name one of key, prefix and all");
  for (const auto& [name, text] : {std::pair("key", options.key), {"prefix", options.prefix}}) {
    if (!text) continue;
    if (auto valid = validate_key(*text); !valid) return std::unexpected(valid.error());
    body[name] = *text;
  }
  if (options.all) body["all"] = true;
  // JSON is text: what is none would be left out here, and then be another key.
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::ignore);
  if (Json::parse(text) != body) {
    return fail(ErrorKind::kInvalid, "a transition takes keys and prefixes that are UTF-8");
  }
  return body;
}

}  // namespace

Transition::Transition(std::shared_ptr<const AdminInterfaces> admin, uint64_t id)
    : admin_(std::move(admin)), id_(id), heard_by_(Clock::now() + kHeard) {}

Result<TransitionReport> Transition::ask() const { return report_of(admin_->get(path_of(id_))); }

bool Transition::is_unheard(const Result<TransitionReport>& report) const {
  return !report && report.error().kind == ErrorKind::kNotFound && Clock::now() < heard_by_;
}

Result<TransitionReport> Transition::report() const {
  for (;;) {
    auto now = ask();
    if (!is_unheard(now)) return now;
    std::this_thread::sleep_for(kHeardPause);
  }
}

Result<TransitionReport> Transition::cancel() const {
  return report_of(
      admin_->post(Retry::kConditional, path_of(id_) + "/cancel", kAction, Json::object()));
}

Result<TransitionReport> Transition::wait(std::chrono::milliseconds timeout) const {
  const Clock::time_point start = Clock::now();
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto now = ask();
    if (!now && !is_unheard(now)) return now;
    const std::string state = now ? now->state : "not heard of";
    if (state == "done" || state == "cancelled") return now;
    if (state == "failed") {
      return fail(ErrorKind::kServer, "the transition failed: " + now->reason);
    }
    // in milliseconds: the longest timeout has no form in the clock's unit
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    if (waited + pause > timeout) return fail(ErrorKind::kTimeout, "the transition is " + state);
    std::this_thread::sleep_for(pause);
  }
}

Admin::Admin(std::shared_ptr<const AdminInterfaces> interfaces)
    : interfaces_(std::move(interfaces)) {}
Admin::~Admin() = default;
Admin::Admin(Admin&&) noexcept = default;
Admin& Admin::operator=(Admin&&) noexcept = default;

Result<Admin> Admin::create(const std::vector<std::string>& addresses, const Options& options,
                            std::string_view named) {
  auto proxies = Proxies::create(addresses, options, kIdleClients);
  if (!proxies) return std::unexpected(proxies.error());
  if (!named.empty()) {
    const auto address = parse_address(named);
    if (!address) return std::unexpected(address.error());
    if (is_unix_socket(*address)) {
      return fail(ErrorKind::kInvalid, "an admin interface has no Unix socket");
    }
    if (addresses.size() > 1) {
      return fail(ErrorKind::kInvalid, "one admin interface is not of many proxies");
    }
  }
  return Admin(std::make_shared<const AdminInterfaces>(std::move(*proxies), std::string(named)));
}

Result<ObjectInfo> Admin::object_info(std::string_view key) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  const auto json = interfaces_->get("/v1/objects/" + percent_encoded(key));
  if (!json) return std::unexpected(json.error());
  return info_of(*json);
}

Result<Transition> Admin::transition(unsigned to, const TransitionOptions& options) {
  const auto body = body_of(to, options);
  if (!body) return std::unexpected(body.error());
  const auto json = interfaces_->post(Retry::kWrite, kTransitions, kAction, *body);
  if (!json) return std::unexpected(json.error());
  return Transition(interfaces_, field<uint64_t>(*json, "id"));
}

Result<Transition> Admin::find_transition(uint64_t id) {
  const auto json = interfaces_->get(path_of(id));
  if (!json) return std::unexpected(json.error());
  return Transition(interfaces_, id);
}

}  // namespace elastripe::client
