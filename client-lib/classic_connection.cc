#include "client-lib/classic_connection.h"

#include <string>

#include "client-lib/fail.h"

namespace elastripe::client {
namespace {

// What libmemcached says of an error, "(ADDRESS) KIND, TEXT, host: ... -> PLACE", as TEXT or KIND.
std::string tidy_message(std::string_view text) {
  for (std::string_view tail : {" -> libmemcached/", " host: "}) {
    text = text.substr(0, text.find(tail));
  }
  if (text.starts_with("(0x")) {
    const size_t end = text.find(") ");
    if (end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  if (const size_t comma = text.find(", "); comma != std::string_view::npos) {
    const std::string_view detail = text.substr(comma + 2);
    text =
        detail.find_first_not_of(" ,") != std::string_view::npos ? detail : text.substr(0, comma);
  }
  while (!text.empty() && std::string_view("\r\n, ").contains(text.back())) text.remove_suffix(1);
  return std::string(text);
}

ErrorKind kind_of(memcached_return_t code) {
  switch (code) {
    case MEMCACHED_NOTFOUND:
      return ErrorKind::kNotFound;
    case MEMCACHED_TIMEOUT:
    case MEMCACHED_IN_PROGRESS:
      return ErrorKind::kTimeout;
    case MEMCACHED_SERVER_ERROR:
    case MEMCACHED_CLIENT_ERROR:
    case MEMCACHED_ERROR:
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
      return ErrorKind::kServer;
    case MEMCACHED_BAD_KEY_PROVIDED:
    case MEMCACHED_KEY_TOO_BIG:
    case MEMCACHED_INVALID_ARGUMENTS:
      return ErrorKind::kInvalid;
    default:
      return ErrorKind::kConnection;
  }
}

// Whether the answer is complete, so that another request may follow on the connection.
bool is_answered(memcached_return_t code) {
  switch (code) {
    case MEMCACHED_SUCCESS:
    case MEMCACHED_NOTFOUND:
    case MEMCACHED_CLIENT_ERROR:
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
      return true;
    default:
      return false;
  }
}

// What libmemcached keeps no text of.
std::string_view text_of(memcached_return_t code) {
  switch (code) {
    case MEMCACHED_NOTFOUND:
      return "no such object";
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
      return "the server is out of memory";
    case MEMCACHED_ERROR:
      return "ERROR";
    case MEMCACHED_TIMEOUT:
    case MEMCACHED_IN_PROGRESS:
      return "no answer in time";
    case MEMCACHED_CONNECTION_FAILURE:
      return "the connection is refused or closed";
    default:
      return {};
  }
}

}  // namespace

Result<> ClassicConnection::run(const Command& command) {
  const auto is_idle_for = std::chrono::steady_clock::now() - last_used_;
  const bool is_idle = is_idle_for >= std::chrono::milliseconds(options_.idle_ms);
  if (is_idle || handle_.get_deleter().is_of_parent()) handle_.reset();
  if (!handle_) {
    if (auto connected = connect(); !connected) {
      handle_.reset();
      connected.error().is_unsent = true;
      connected.error().message = address_of(options_) + ": " + connected.error().message;
      return connected;
    }
  }
  const memcached_return_t code = command(handle_.get());
  last_used_ = std::chrono::steady_clock::now();
  Result<> result;
  if (code != MEMCACHED_SUCCESS) result = std::unexpected(error_of(code));
  // libmemcached would connect again by itself, and not log in.
  if (!is_answered(code)) handle_.reset();
  return result;
}

Result<> ClassicConnection::connect() {
  handle_ = Handle(memcached_create(nullptr), Free{::getpid()});
  if (!handle_) return fail(ErrorKind::kConnection, "out of memory");
  memcached_st* handle = handle_.get();
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT,
                         static_cast<uint64_t>(options_.connect_timeout_ms));
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_POLL_TIMEOUT,
                         static_cast<uint64_t>(options_.request_timeout_ms));
  const char* host = options_.host.c_str();
  memcached_return_t code = is_unix_socket(options_)
                                ? memcached_server_add_unix_socket(handle, host)
                                : memcached_server_add(handle, host, options_.port);
  if (code != MEMCACHED_SUCCESS) return fail(ErrorKind::kInvalid, "not a server address");
  code = memcached_version(handle);
  // Whoever asks nobody would store what follows.
  const bool is_refused =
      code != MEMCACHED_SUCCESS && memcached_last_error(handle) == MEMCACHED_CLIENT_ERROR;
  if (!options_.user.empty() && is_refused) {
    constexpr std::string_view kKey = "elastripe";
    const std::string said = options_.user + " " + options_.password;
    code = memcached_set(handle, kKey.data(), kKey.size(), said.data(), said.size(), 0, 0);
  }
  if (code != MEMCACHED_SUCCESS) return std::unexpected(error_of(code));
  last_used_ = std::chrono::steady_clock::now();
  return {};
}

Error ClassicConnection::error_of(memcached_return_t code) const {
  // "Some errors" is how a command for many servers fails.
  if (code == MEMCACHED_SOME_ERRORS || code == MEMCACHED_FAILURE) {
    const memcached_return_t last = memcached_last_error(handle_.get());
    if (last != MEMCACHED_SUCCESS) code = last;
  }
  const ErrorKind kind = kind_of(code);
  if (const std::string_view text = text_of(code); !text.empty()) return {kind, std::string(text)};
  const char* said = memcached_last_error_message(handle_.get());
  std::string message = said != nullptr ? tidy_message(said) : memcached_strerror(nullptr, code);
  if (kind == ErrorKind::kServer) return refusal(std::move(message));
  return {kind, std::move(message)};
}

}  // namespace elastripe::client
