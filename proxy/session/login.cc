#include "proxy/session/login.h"

#include <utility>

#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Command;
namespace replies = memcache::replies;

struct Credentials {
  std::string_view name;
  std::string_view password;
};

// The first two words.
std::optional<Credentials> credentials_in_text(std::string_view value) {
  constexpr auto kNone = std::string_view::npos;
  const auto word = [&value] {
    const size_t begin = value.find_first_not_of(' ');
    if (begin == kNone) return std::string_view();
    const std::string_view found = value.substr(begin, value.find(' ', begin) - begin);
    value.remove_prefix(begin + found.size());
    return found;
  };
  const std::string_view name = word();
  const std::string_view password = word();
  if (password.empty()) return std::nullopt;
  return Credentials{name, password};
}

// The message of SASL PLAIN (RFC 4616): [authzid] NUL authcid NUL passwd. Nobody acts for another.
std::optional<Credentials> credentials_in_plain(std::string_view message) {
  const size_t first = message.find('\0');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = message.find('\0', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view acts_as = message.substr(0, first);
  const std::string_view name = message.substr(first + 1, second - first - 1);
  if (!acts_as.empty() && acts_as != name) return std::nullopt;
  return Credentials{name, message.substr(second + 1)};
}

}  // namespace

bool Login::is_attempt(const memcache::Request& request) const {
  if (users_ == nullptr) return false;
  if (memcache::is_sasl_login(request.command)) return true;
  return !is_done_ && !request.binary && request.command == Command::kSet;
}

std::optional<CommandOutcome> Login::answer(const memcache::Request& request) const {
  if (request.command == Command::kSaslMechanisms && users_ != nullptr) {
    return SaslMechanisms{kMechanism};
  }
  const bool is_sasl =
      request.command == Command::kSaslMechanisms || memcache::is_sasl_login(request.command);
  if (is_sasl) return replies::kUnknownOpcode;
  const bool is_harmless = request.binary && request.command == Command::kVersion;
  if (is_done_ || is_harmless) return std::nullopt;
  return replies::kUnauthenticated;
}

CommandOutcome Login::log_in(const ClientCommand& command, std::string_view value) {
  is_done_ = false;
  ++failures_;
  std::optional<Credentials> given;
  if (!command.is_binary) {
    given = credentials_in_text(value);
    if (!given) return replies::kBadLogin;
  } else if (command.command == Command::kSaslAuth && command.key == kMechanism) {
    given = credentials_in_plain(value);
  }
  is_done_ = given && users_->load()->knows(given->name, given->password);
  if (!is_done_) return replies::kLoginFailed;
  failures_ = 0;
  return LoggedIn{};
}

}  // namespace elastripe
