// The admin interface of a proxy: HTTP and JSON (docs/admin-api.md), found through the client port.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tools/cli/result.h"

namespace elastripe::cli {

class AdminClient {
 public:
  // Asks the proxy at HOST:PORT for its admin address (`stats settings`, admin_addr), unless
  // `admin` names it, and makes sure that it is this proxy's: "127.0.0.1" means another machine
  // here than there. A proxy that wants to know who asks, or speaks TLS, is found by `admin` alone.
  static Result<AdminClient> of_server(std::string_view server, std::string_view admin = {});

  // The body of a successful answer, its fields in the proxy's order. A refusal's error is the
  // reason that the proxy gives.
  Result<nlohmann::ordered_json> get(const std::string& path) const;
  // The same of what is no JSON: /metrics.
  Result<std::string> text(const std::string& path) const;
  // POST /v1/ACTION.
  Result<nlohmann::ordered_json> act(const std::string& action) const;
  // POST of a body to a path, with the header that names the action.
  Result<nlohmann::ordered_json> post(const std::string& path, const std::string& action,
                                      const std::string& body = {}) const;
  // Success when /readyz says that requests are served; else its reason.
  Result<> ready() const;

 private:
  // `told`: as the proxy names it, which is what it wants to hear of itself.
  AdminClient(std::string address, std::string told)
      : address_(std::move(address)), told_(std::move(told)) {}

  struct Answer {
    long status = 0;
    std::string body;
  };
  // A POST when `action` is given, with the header that names it: the proxy asks for that, since no
  // web page can send it.
  Result<Answer> request(const std::string& path, const std::string& action = {},
                         const std::string& body = {}) const;
  Result<nlohmann::ordered_json> json_of(const Result<Answer>& answer) const;
  Result<> check_id(const std::string& proxy_id) const;

  std::string address_;  // HOST:PORT
  std::string told_;
};

// `text` as one segment of a URL's path.
std::string url_escape(std::string_view text);

}  // namespace elastripe::cli
