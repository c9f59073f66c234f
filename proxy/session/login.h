// Login: whether the client of a connection has said who it is.
//
// Two ways, as in memcached: the text command `set KEY FLAGS EXPTIME BYTES` with the value "user
// password", which is stored nowhere; or SASL PLAIN in the binary protocol. Until then nothing else
// is done for the client. Where nobody is asked, everybody may do all at once.
#pragma once

#include <optional>

#include "proxy/base/published.h"
#include "proxy/session/client_command.h"
#include "proxy/session/command_outcome.h"
#include "proxy/session/users.h"

namespace elastripe {

// Loop thread only; one per connection.
class Login {
 public:
  // Null: nobody is asked. They outlive this.
  explicit Login(const Published<Users>* users) : users_(users), is_done_(users == nullptr) {}

  // The client may do what it wants.
  bool is_done() const { return is_done_; }
  // This command tries to log in: its value is for log_in().
  bool is_attempt(const memcache::Request& request) const;
  // What any other command is answered in its place; nothing: it may run.
  std::optional<CommandOutcome> answer(const memcache::Request& request) const;
  // LoggedIn or why not. A client that had logged in before and fails now has not any more.
  CommandOutcome log_in(const ClientCommand& command, std::string_view value);
  // It has guessed so often that it may not go on.
  bool is_hopeless() const { return failures_ >= kMostFailures; }

  // Longer values are no login.
  static constexpr size_t kMaxValueBytes = 2048;
  static constexpr int kMostFailures = 3;

 private:
  static constexpr std::string_view kMechanism = "PLAIN";

  const Published<Users>* const users_;
  bool is_done_;
  int failures_ = 0;
};

}  // namespace elastripe
