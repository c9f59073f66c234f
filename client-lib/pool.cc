#include "client-lib/pool.h"

#include <utility>

#include "client-lib/proxies.h"

namespace elastripe::client {

Pool::Pool(std::unique_ptr<Proxies> proxies) : proxies_(std::move(proxies)) {}
Pool::~Pool() = default;
Pool::Pool(Pool&&) noexcept = default;
Pool& Pool::operator=(Pool&&) noexcept = default;

Result<Pool> Pool::create(const std::vector<std::string>& addresses, const Options& options,
                          size_t idle_clients) {
  auto proxies = Proxies::create(addresses, options, idle_clients);
  if (!proxies) return std::unexpected(proxies.error());
  return Pool(std::move(*proxies));
}

Result<Value> Pool::get(std::string_view key) {
  return proxies_->run(Retry::kRead, [&](Client& client) { return client.get(key); });
}

Result<Values> Pool::get_many(std::span<const std::string> keys) {
  return proxies_->run(Retry::kRead, [&](Client& client) { return client.get_many(keys); });
}

Result<> Pool::put(std::string_view key, std::string_view object, const PutOptions& options) {
  return proxies_->run(options.cas ? Retry::kConditional : Retry::kWrite,
                       [&](Client& client) { return client.put(key, object, options); });
}

Result<> Pool::add(std::string_view key, std::string_view object, const PutOptions& options) {
  return proxies_->run(Retry::kWrite,
                       [&](Client& client) { return client.add(key, object, options); });
}

Result<PutErrors> Pool::put_many(std::span<const Object> objects, const PutOptions& options) {
  return proxies_->run(Retry::kWrite,
                       [&](Client& client) { return client.put_many(objects, options); });
}

Result<Range> Pool::get_range(std::string_view key, uint64_t offset, uint64_t length) {
  return proxies_->run(Retry::kRead,
                       [&](Client& client) { return client.get_range(key, offset, length); });
}

Result<uint64_t> Pool::update(std::string_view key, uint64_t offset, std::string_view bytes,
                              const UpdateOptions& options) {
  return proxies_->run(options.cas ? Retry::kConditional : Retry::kWrite,
                       [&](Client& client) { return client.update(key, offset, bytes, options); });
}

Result<> Pool::append(std::string_view key, std::string_view bytes) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.append(key, bytes); });
}

Result<> Pool::prepend(std::string_view key, std::string_view bytes) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.prepend(key, bytes); });
}

Result<uint64_t> Pool::increment(std::string_view key, uint64_t delta) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.increment(key, delta); });
}

Result<uint64_t> Pool::decrement(std::string_view key, uint64_t delta) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.decrement(key, delta); });
}

Result<> Pool::remove(std::string_view key) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.remove(key); });
}

Result<> Pool::touch(std::string_view key, int64_t exptime) {
  return proxies_->run(Retry::kWrite, [&](Client& client) { return client.touch(key, exptime); });
}

Result<Stats> Pool::stats(std::string_view group) {
  return proxies_->run(Retry::kRead, [&](Client& client) { return client.stats(group); });
}

void Pool::close() { proxies_->close(); }

}  // namespace elastripe::client
