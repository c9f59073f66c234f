#include "client-lib/admin_interface.h"

#include <curl/curl.h>

#include <cctype>
#include <memory>
#include <mutex>

#include "client-lib/fail.h"

namespace elastripe::client {
namespace {

using Json = nlohmann::json;

size_t append_body(char* data, size_t size, size_t count, void* context) {
  static_cast<std::string*>(context)->append(data, size * count);
  return size * count;
}

// The text of {"error": CODE, "message": TEXT}, or the text itself, in one line.
std::string reason_of(const Json& json, const std::string& body) {
  for (const char* key : {"message", "error"}) {
    if (json.is_object() && json.contains(key) && json[key].is_string()) return json[key];
  }
  return body.substr(0, body.find('\n'));
}

ErrorKind kind_of(CURLcode code) {
  return code == CURLE_OPERATION_TIMEDOUT ? ErrorKind::kTimeout : ErrorKind::kConnection;
}

// The words of a proxy's protocol for what nobody knows, and for a proxy that serves nothing.
Error refused(long status, const Json& json, std::string reason) {
  if (json.is_object() && json.value("error", Json()) == "unknown_outcome") {
    return refusal("outcome unknown: " + reason);
  }
  if (status == 404) return {ErrorKind::kNotFound, std::move(reason)};
  if (status == 503 && !reason.starts_with("not serving")) reason = "not serving: " + reason;
  return {ErrorKind::kServer, std::move(reason)};
}

std::unexpected<Error> unsent(Error error) {
  error.is_unsent = true;
  return std::unexpected(std::move(error));
}

}  // namespace

std::string percent_encoded(std::string_view key) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("-_.~").contains(c))) {
      encoded += c;
    } else {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

Result<AdminInterface> AdminInterface::of_proxy(Client& client, const std::string& named) {
  const std::string proxy = address_of(client.options());
  const auto settings = client.stats("settings");
  if (!settings) return unsent(settings.error());
  std::string told, proxy_id;
  for (const auto& [key, value] : *settings) {
    if (key == "admin_addr") told = value;
    if (key == "proxy_id") proxy_id = value;
  }
  if (told.empty() || proxy_id.empty()) {
    return fail(ErrorKind::kServer,
                proxy + " is no elastripe proxy, or its admin interface is off");
  }
  auto address = parse_address(named.empty() ? told : named);
  if (!address) return std::unexpected(address.error());
  // A proxy that listens everywhere tells no address to connect to.
  if (named.empty() && (address->host == "0.0.0.0" || address->host == "::")) {
    const bool is_here = is_unix_socket(client.options());
    address->host = is_here ? Options().host : client.options().host;
  }
  AdminInterface found(told, address_of(*address), client.options());
  const auto status = found.get("/v1/status");
  if (!status) {
    Error error = status.error();
    // It is not the object that is not there.
    if (error.kind == ErrorKind::kNotFound) error.kind = ErrorKind::kServer;
    return unsent(std::move(error));
  }
  const auto found_id = status->find("proxy_id");
  if (found_id == status->end() || *found_id != proxy_id) {
    return fail(ErrorKind::kServer, "the admin interface " + found.address_ +
                                        " is of another proxy than " + proxy +
                                        ": name its address, or ask where the proxy runs");
  }
  return found;
}

Result<Json> AdminInterfaces::get(const std::string& path) const {
  return proxies_->run(Retry::kRead, [&](Client& client) -> Result<Json> {
    const auto admin = AdminInterface::of_proxy(client, named_);
    if (!admin) return std::unexpected(admin.error());
    return admin->get(path);
  });
}

Result<Json> AdminInterfaces::post(Retry retry, const std::string& path, std::string_view action,
                                   const Json& body) const {
  return proxies_->run(retry, [&](Client& client) -> Result<Json> {
    const auto admin = AdminInterface::of_proxy(client, named_);
    if (!admin) return std::unexpected(admin.error());
    return admin->post(path, action, body);
  });
}

Result<Json> AdminInterface::request(const std::string& path, std::string_view action,
                                     const std::string& body) const {
  static std::once_flag is_ready;
  std::call_once(is_ready, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owner(curl_easy_init(),
                                                                  &curl_easy_cleanup);
  CURL* curl = owner.get();
  if (curl == nullptr) return unsent({ErrorKind::kConnection, "out of memory"});
  const std::string url = "http://" + address_ + path;
  std::string answer;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // for threads
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.request_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  curl_slist* list = curl_slist_append(nullptr, ("Host: " + told_).c_str());
  if (!action.empty()) {
    list = curl_slist_append(list, ("X-Elastripe: " + std::string(action)).c_str());
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
  }
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list,
                                                                            &curl_slist_free_all);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) {
    double connected_after = 0;
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME, &connected_after);
    return std::unexpected(Error{.kind = kind_of(code),
                                 .message = address_ + ": " + curl_easy_strerror(code),
                                 .is_unsent = connected_after == 0});
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (status / 100 != 2) return std::unexpected(refused(status, json, reason_of(json, answer)));
  if (!json.is_object()) {
    return fail(ErrorKind::kConnection, address_ + " does not answer with JSON");
  }
  return json;
}

}  // namespace elastripe::client
