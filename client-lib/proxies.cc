#include "client-lib/proxies.h"

#include <memory>

namespace elastripe::client {

Result<std::unique_ptr<Proxies>> Proxies::create(const std::vector<std::string>& addresses,
                                                 Options options, size_t most_idle) {
  if (addresses.empty()) return fail(ErrorKind::kInvalid, "there is no proxy to ask");
  auto proxies = std::make_unique<Proxies>(most_idle);
  for (const std::string& text : addresses) {
    auto address = parse_address(text);
    if (!address) return std::unexpected(address.error());
    options.host = address->host;
    options.port = address->port;
    if (auto possible = Client::create(options); !possible) {
      return std::unexpected(possible.error());
    }
    proxies->proxies_.emplace_back().options = options;
  }
  return proxies;
}

Client Proxies::take(Proxy& proxy) {
  {
    const std::lock_guard lock(proxy.mutex);
    if (!proxy.idle.empty()) {
      Client client = std::move(proxy.idle.back());
      proxy.idle.pop_back();
      return client;
    }
  }
  return *Client::create(proxy.options);
}

void Proxies::give_back(Proxy& proxy, Client client) {
  const std::lock_guard lock(proxy.mutex);
  // Those beyond the limit are closed by the caller, whose argument they are, without the lock.
  if (proxy.idle.size() < most_idle_) proxy.idle.push_back(std::move(client));
}

void Proxies::note(size_t proxy, bool has_answered) {
  if (has_answered) {
    preferred_.store(proxy, std::memory_order_relaxed);
    return;
  }
  // Not where another thread has found one that answers.
  size_t silent = proxy;
  preferred_.compare_exchange_strong(silent, (proxy + 1) % proxies_.size(),
                                     std::memory_order_relaxed);
}

void Proxies::close(Proxy& proxy) {
  std::vector<Client> idle;  // which ends without the lock
  const std::lock_guard lock(proxy.mutex);
  idle.swap(proxy.idle);
}

void Proxies::close() {
  for (Proxy& proxy : proxies_) close(proxy);
}

}  // namespace elastripe::client
