#include "proxy/session/users.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "proxy/io/socket.h"

namespace elastripe {
namespace {

constexpr size_t kMaxFileBytes = 16 << 20;

bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c != 0x7f; });
}

}  // namespace

Users::Digest Users::digest_of(std::string_view text) {
  static_assert(sizeof(Digest) == SHA256_DIGEST_LENGTH);
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

Result<Users> Users::parse(std::string_view text) {
  Users users;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t colon = line.find(':');
    const auto refuse = [&](std::string_view why) {
      return fail(ErrorCode::kInvalid, "line {}: {}", number, why);
    };
    if (colon == std::string_view::npos) return refuse("has no colon: it must be user:password");
    if (colon == 0) return refuse("the user has no name");
    if (line.size() - 1 > kMaxLoginBytes) return refuse("has more than 1024 bytes");
    const std::string_view name = line.substr(0, colon);
    const std::string_view password = line.substr(colon + 1);
    if (password.empty()) return refuse("the user has no password");
    if (!is_word(name) || !is_word(password)) {
      return refuse("has white space or control bytes, which clients can not send");
    }
    if (!users.passwords_.emplace(digest_of(name), digest_of(password)).second) {
      return refuse("the user is there twice");
    }
  }
  return users;
}

bool Users::knows(std::string_view name, std::string_view password) const {
  static constexpr Digest kNobody{};
  const Digest given = digest_of(password);
  const auto user = passwords_.find(digest_of(name));
  const Digest& right = user == passwords_.end() ? kNobody : user->second;
  const bool is_right = CRYPTO_memcmp(right.data(), given.data(), given.size()) == 0;
  return is_right && user != passwords_.end();
}

Result<Users> load_users(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.valid() || fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::kNotFound, "{}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kInvalid, "{}: is not a file", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(ErrorCode::kInvalid,
                "{}: has passwords, and others than its owner may use it (mode {:o}): chmod 600 it",
                path, status.st_mode & 07777U);
  }
  if (static_cast<size_t>(status.st_size) > kMaxFileBytes) {
    return fail(ErrorCode::kInvalid, "{}: is larger than 16 MiB", path);
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t more = read(file.get(), text.data() + got, text.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return fail(ErrorCode::kInvalid, "{}: {}", path, std::strerror(errno));
    if (more == 0) break;
    got += static_cast<size_t>(more);
  }
  text.resize(got);
  auto users = Users::parse(text);
  if (!users) return fail(users.error().code, "{}: {}", path, users.error().message);
  if (users->size() == 0) return fail(ErrorCode::kInvalid, "{}: lists no user", path);
  return users;
}

}  // namespace elastripe
