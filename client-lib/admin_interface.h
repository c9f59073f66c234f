// The HTTP side of the admin interface: of one proxy, and of whichever answers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "client-lib/client.h"
#include "client-lib/proxies.h"

namespace elastripe::client {

// That of one proxy. Each request is a connection.
class AdminInterface {
 public:
  // That of the proxy that `client` asks, at the address `named`, or at the one that the proxy
  // tells. kServer if it is not of this proxy. Errors are unsent.
  static Result<AdminInterface> of_proxy(Client& client, const std::string& named);

  // The answer. A `body` makes it a POST, whose action is told in the header X-Elastripe.
  Result<nlohmann::json> get(const std::string& path) const { return request(path, {}, {}); }
  Result<nlohmann::json> post(const std::string& path, std::string_view action,
                              const nlohmann::json& body) const {
    return request(path, action, body.dump());
  }

 private:
  AdminInterface(std::string told, std::string address, const Options& options)
      : told_(std::move(told)), address_(std::move(address)), options_(options) {}

  Result<nlohmann::json> request(const std::string& path, std::string_view action,
                                 const std::string& body) const;

  std::string told_;  // the name that the interface knows itself by
  std::string address_;
  Options options_;
};

// Those of all proxies of a cluster, of which one is asked at a time, as Proxies do. For many
// threads.
class AdminInterfaces {
 public:
  // `named`: the address of that of a lone proxy, if it is not where the proxy tells.
  AdminInterfaces(std::unique_ptr<Proxies> proxies, std::string named)
      : proxies_(std::move(proxies)), named_(std::move(named)) {}

  Result<nlohmann::json> get(const std::string& path) const;
  Result<nlohmann::json> post(Retry retry, const std::string& path, std::string_view action,
                              const nlohmann::json& body) const;

 private:
  const std::unique_ptr<Proxies> proxies_;
  const std::string named_;
};

// The key as a part of a path.
std::string percent_encoded(std::string_view key);

}  // namespace elastripe::client
