// Users: who may be a client, by name and password.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "proxy/base/error.h"

namespace elastripe {

// Immutable; a file that has changed makes another one.
class Users {
 public:
  // A line "user:password" each, as in memcached's authfile; the password is all behind the first
  // colon. Empty lines, and those that begin with '#', are passed over. kInvalid with the line's
  // number: a line without a colon, an empty or doubled name, white space or control bytes, or more
  // than kMaxLoginBytes.
  static Result<Users> parse(std::string_view text);

  // Takes as long whichever byte is wrong and whoever is unknown.
  bool knows(std::string_view name, std::string_view password) const;
  size_t size() const { return passwords_.size(); }

  static constexpr size_t kMaxLoginBytes = 1024;  // of a name with its password

 private:
  // SHA-256: of one length, so that comparing them does not tell that of a password.
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view text);

  std::map<Digest, Digest> passwords_;  // by the names'
};

// kInvalid also if anybody but the file's owner may read it (its mode is to be 0600 or 0400): it
// has passwords. kNotFound if it can not be opened.
Result<Users> load_users(const std::string& path);

}  // namespace elastripe
