#include "proxy/main/credentials.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/base/log.h"

namespace elastripe {
namespace {

constexpr std::chrono::days kShort{30};

bool any_listener(const Config& config, auto asks) {
  return asks(config.listen) || std::ranges::any_of(config.listeners, asks);
}

void doubt_key(const char* section, const std::string& key) {
  struct stat status{};
  if (stat(key.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    log_warning("{}: key {}: others than its owner may use it (mode {:o})", section, key,
                status.st_mode & 07777U);
  }
}

// What works today and ought to be looked at.
void log_doubts(const TlsFiles& files, const TlsContext& context) {
  doubt_key("tls", files.key);
  const auto left = context.valid_until() - std::chrono::system_clock::now();
  if (left < kShort) {
    log_warning("tls: certificate {}: is valid for {} more days only", files.certificate,
                std::chrono::floor<std::chrono::days>(left).count());
  }
}

}  // namespace

Result<void> Credentials::load(const Config& config) {
  std::shared_ptr<const Users> users;
  if (any_listener(config, [](const ListenConfig& at) { return at.authenticate; })) {
    auto loaded = load_users(config.users_file);
    if (!loaded) {
      return fail(loaded.error().code, "users_file: {}", loaded.error().message);
    }
    users = std::make_shared<const Users>(std::move(*loaded));
  }
  std::vector<std::pair<Published<TlsContext>*, std::shared_ptr<const TlsContext>>> contexts;
  const auto load_tls = [&](Published<TlsContext>& to, TlsRole role) -> Result<void> {
    auto context = TlsContext::create(config.tls.files, role);
    if (!context) return fail(context.error().code, "tls: {}", context.error().message);
    if (role == TlsRole::kClient && !(*context)->is_of_server()) {
      return fail(ErrorCode::kInvalid,
                  "tls: certificate {}: is for clients only (extended key usage); nodes believe "
                  "only those of servers",
                  config.tls.files.certificate);
    }
    contexts.emplace_back(&to, std::move(*context));
    return {};
  };
  const auto listens = [&](ListenTls tls) {
    return any_listener(config, [tls](const ListenConfig& at) { return at.tls == tls; });
  };
  Result<void> loaded;
  if (listens(ListenTls::kOn)) loaded = load_tls(server_, TlsRole::kServer);
  if (loaded && listens(ListenTls::kMutual)) {
    loaded = load_tls(mutual_server_, TlsRole::kMutualServer);
  }
  if (loaded && config.tls.nodes) loaded = load_tls(node_client_, TlsRole::kClient);
  if (!loaded) return loaded;
  if (!contexts.empty()) log_doubts(config.tls.files, *contexts.front().second);
  if (config.etcd.is_used()) doubt_key("etcd", config.etcd.client.tls.key);
  if (users != nullptr) users_.store(std::move(users));
  for (auto& [to, context] : contexts) to->store(std::move(context));
  return {};
}

std::optional<std::chrono::system_clock::time_point> Credentials::valid_until() const {
  for (const auto* published : {&server_, &mutual_server_, &node_client_}) {
    if (const auto context = published->load()) return context->valid_until();
  }
  return {};
}

ClientAccess Credentials::access(const ListenConfig& listen) const {
  ClientAccess access;
  if (listen.authenticate) access.users = &users_;
  if (listen.tls == ListenTls::kOn) access.tls = &server_;
  if (listen.tls == ListenTls::kMutual) access.tls = &mutual_server_;
  return access;
}

const Published<TlsContext>* Credentials::nodes(const Config& config) const {
  return config.tls.nodes ? &node_client_ : nullptr;
}

}  // namespace elastripe
