#include "tools/cli/admin.h"

#include <curl/curl.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "client-lib/client.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr long kConnectTimeoutMs = 2000;
constexpr long kTimeoutMs = 15000;

size_t append_body(char* data, size_t size, size_t count, void* context) {
  static_cast<std::string*>(context)->append(data, size * count);
  return size * count;
}

// The text of {"error": CODE, "message": TEXT}, or the text itself, in one line.
std::string reason_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) {
    for (const char* key : {"message", "error"}) {
      if (json.contains(key) && json[key].is_string()) return json[key].get<std::string>();
    }
  }
  return body.substr(0, body.find('\n'));
}

// A proxy that listens everywhere tells no address to connect to: then it is the host that was
// asked.
std::string reachable(const std::string& told, const std::string& host) {
  for (const std::string_view everywhere : {"0.0.0.0:", "[::]:"}) {
    if (!told.starts_with(everywhere)) continue;
    const std::string_view port = std::string_view(told).substr(everywhere.size());
    if (host.starts_with('/')) return fmt::format("127.0.0.1:{}", port);  // it is on this machine
    return host.contains(':') ? fmt::format("[{}]:{}", host, port)
                              : fmt::format("{}:{}", host, port);
  }
  return told;
}

}  // namespace

std::string url_escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.' ||
                       byte == '~';
    if (plain) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", byte);
    }
  }
  return result;
}

Result<AdminClient> AdminClient::of_server(std::string_view server, std::string_view admin) {
  auto options = client::parse_address(server);
  if (!options) return fail("{}: {}", server, options.error().message);
  options->request_timeout_ms = static_cast<int>(kTimeoutMs);
  auto client = client::Client::create(*options);
  if (!client) return fail("{}: {}", server, client.error().message);
  const auto settings = client->stats("settings");
  if (!settings) {
    AdminClient named{std::string(admin), std::string(admin)};
    if (!admin.empty() && named.get("/v1/status")) return named;
    return fail("no answer from {}: {}", server, settings.error().message);
  }
  std::string told, proxy_id;
  for (const auto& [key, value] : *settings) {
    if (key == "admin_addr") told = value;
    if (key == "proxy_id") proxy_id = value;
  }
  if (told.empty() || proxy_id.empty()) {
    return fail("{} is no elastripe proxy, or its admin interface is off", server);
  }
  AdminClient found(admin.empty() ? reachable(told, options->host) : std::string(admin), told);
  const auto same = found.check_id(proxy_id);
  if (same) return found;
  if (!admin.empty()) return fail("the admin interface of {}: {}", server, same.error());
  return fail(
      "the admin interface of {} is {} on its machine, which is not reached from here ({}): run "
      "this there, or name its address with --admin",
      server, told, same.error());
}

Result<> AdminClient::check_id(const std::string& proxy_id) const {
  const auto status = get("/v1/status");
  if (!status) return std::unexpected(status.error());
  if (!status->contains("proxy_id") || (*status)["proxy_id"] != proxy_id) {
    return fail("{} is of another proxy", address_);
  }
  return {};
}

Result<AdminClient::Answer> AdminClient::request(const std::string& path, const std::string& action,
                                                 const std::string& body) const {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 &curl_easy_cleanup);
  if (!curl) return fail("out of memory");
  Answer answer;
  const std::string url = "http://" + address_ + path;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer.body);
  curl_slist* list = curl_slist_append(nullptr, ("Host: " + told_).c_str());
  if (!action.empty()) list = curl_slist_append(list, ("X-Elastripe: " + action).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            &curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  if (!action.empty()) {
    curl_easy_setopt(curl.get(), CURLOPT_POST, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body.c_str());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) return fail("{}: {}", url, curl_easy_strerror(code));
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

Result<Json> AdminClient::json_of(const Result<Answer>& answer) const {
  if (!answer) return std::unexpected(answer.error());
  if (answer->status / 100 != 2) return fail("{}", reason_of(answer->body));
  Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail("{} does not answer with JSON", address_);
  return json;
}

Result<Json> AdminClient::get(const std::string& path) const { return json_of(request(path)); }

Result<std::string> AdminClient::text(const std::string& path) const {
  auto answer = request(path);
  if (!answer) return std::unexpected(answer.error());
  if (answer->status / 100 != 2) return fail("{}", reason_of(answer->body));
  return std::move(answer->body);
}

Result<Json> AdminClient::act(const std::string& action) const {
  return json_of(request("/v1/" + action, action));
}

Result<Json> AdminClient::post(const std::string& path, const std::string& action,
                               const std::string& body) const {
  return json_of(request(path, action, body));
}

Result<> AdminClient::ready() const {
  const auto answer = request("/readyz");
  if (!answer) return std::unexpected(answer.error());
  if (answer->status != 200) return fail("{}", reason_of(answer->body));
  return {};
}

}  // namespace elastripe::cli
