#include "client-lib/client.h"

#include <libmemcached/memcached.h>

#include <algorithm>
#include <charconv>

#include "client-lib/meta_connection.h"

namespace elastripe::client {
namespace {

std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

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
    case MEMCACHED_E2BIG:
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
    case MEMCACHED_NOTSTORED:
      return ErrorKind::kServer;
    case MEMCACHED_BAD_KEY_PROVIDED:
    case MEMCACHED_KEY_TOO_BIG:
    case MEMCACHED_INVALID_ARGUMENTS:
      return ErrorKind::kInvalid;
    default:
      return ErrorKind::kConnection;
  }
}

// Appends one line of `stats`; libmemcached calls it back.
memcached_return_t collect_stat(const memcached_instance_st*, const char* key, size_t key_length,
                                const char* value, size_t value_length, void* context) {
  auto* rows = static_cast<std::vector<std::pair<std::string, std::string>>*>(context);
  rows->emplace_back(std::string(key, key_length), std::string(value, value_length));
  return MEMCACHED_SUCCESS;
}

}  // namespace

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kOutOfRange:
      return "out_of_range";
    case ErrorKind::kExists:
      return "exists";
    case ErrorKind::kInvalid:
      return "invalid";
    case ErrorKind::kConnection:
      return "connection";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kServer:
      return "server";
    case ErrorKind::kUnknownOutcome:
      return "unknown_outcome";
  }
  return "unknown";
}

Result<Options> parse_address(std::string_view text) {
  Options options;
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return fail(ErrorKind::kInvalid, "no ] in the address");
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) {
      return fail(ErrorKind::kInvalid, "expected [ADDRESS]:PORT");
    }
    if (!port.empty()) port.remove_prefix(1);
  } else if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) {
      return fail(ErrorKind::kInvalid, "write an IPv6 address as [ADDRESS]:PORT");
    }
  }
  if (!host.empty()) options.host = host;
  if (!port.empty()) {
    unsigned number = 0;
    const auto [end, status] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (status != std::errc() || end != port.data() + port.size() || number == 0 ||
        number > 65535) {
      return fail(ErrorKind::kInvalid, "not a port: " + std::string(port));
    }
    options.port = static_cast<uint16_t>(number);
  }
  return options;
}

Result<> validate_key(std::string_view key) {
  if (key.empty()) return fail(ErrorKind::kInvalid, "the key is empty");
  if (key.size() > kMaxKeyBytes) {
    return fail(ErrorKind::kInvalid, "the key is longer than 250 bytes");
  }
  const bool printable = std::ranges::all_of(key, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
  if (!printable) return fail(ErrorKind::kInvalid, "the key has white space or control bytes");
  return {};
}

Client::Client(memcached_st* handle, const Options& options)
    : handle_(handle), meta_(new MetaConnection(options)) {}

void Client::Delete::operator()(MetaConnection* connection) const { delete connection; }

void Client::Close::operator()(memcached_st* handle) const { memcached_free(handle); }

Result<Client> Client::create(const Options& options) {
  memcached_st* handle = memcached_create(nullptr);
  if (handle == nullptr) return fail(ErrorKind::kConnection, "out of memory");
  Client client(handle, options);
  const auto milliseconds = [](int value) { return static_cast<uint64_t>(std::max(value, 1)); };
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT,
                         milliseconds(options.connect_timeout_ms));
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_POLL_TIMEOUT,
                         milliseconds(options.request_timeout_ms));
  // a failed request says so at once; the next one connects again
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 0);
  memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_SERVER_FAILURE_LIMIT, 0);
  if (memcached_server_add(handle, options.host.c_str(), options.port) != MEMCACHED_SUCCESS) {
    return fail(ErrorKind::kInvalid, "not a server address: " + options.host);
  }
  return client;
}

Error Client::error_of(int code) const {
  const auto value = static_cast<memcached_return_t>(code);
  Error error{kind_of(value), {}};
  // libmemcached takes these two replies for codes of its own and keeps no text of them
  if (value == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE) {
    error.message = "out of memory storing object";
    return error;
  }
  if (value == MEMCACHED_E2BIG) {
    error.message = "object too large for cache";
    return error;
  }
  const char* text = memcached_last_error_message(handle_.get());
  error.message = text != nullptr ? tidy_message(text) : memcached_strerror(handle_.get(), value);
  if (error.message.find("outcome unknown") != std::string::npos) {
    error.kind = ErrorKind::kUnknownOutcome;
  }
  return error;
}

Error Client::read_error(int code) const {
  const auto value = static_cast<memcached_return_t>(code);
  if (value != MEMCACHED_NOTFOUND && value != MEMCACHED_END && value != MEMCACHED_SUCCESS) {
    return error_of(code);
  }
  // libmemcached ends a read that the server answered with SERVER_ERROR like one that found
  // nothing; only the list of errors of this request tells them apart
  const memcached_return_t last = memcached_last_error(handle_.get());
  const bool failed = memcached_failed(last) && last != MEMCACHED_NOTFOUND;
  return failed ? error_of(last) : Error{ErrorKind::kNotFound, "no such object"};
}

Result<Value> Client::get(std::string_view key) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  size_t bytes = 0;
  uint32_t flags = 0;
  memcached_return_t code = MEMCACHED_SUCCESS;
  char* data = memcached_get(handle_.get(), key.data(), key.size(), &bytes, &flags, &code);
  if (code != MEMCACHED_SUCCESS) {
    std::free(data);
    return std::unexpected(read_error(code));
  }
  return Value(data, data == nullptr ? 0 : bytes, flags);
}

Result<std::map<std::string, Value, std::less<>>> Client::get_many(
    std::span<const std::string> keys) {
  std::map<std::string, Value, std::less<>> found;
  if (keys.empty()) return found;
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const std::string& key : keys) {
    if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
    starts.push_back(key.data());
    lengths.push_back(key.size());
  }
  memcached_return_t code =
      memcached_mget(handle_.get(), starts.data(), lengths.data(), keys.size());
  if (code != MEMCACHED_SUCCESS) return std::unexpected(error_of(code));

  while (memcached_result_st* row = memcached_fetch_result(handle_.get(), nullptr, &code)) {
    std::string key(memcached_result_key_value(row), memcached_result_key_length(row));
    const size_t bytes = memcached_result_length(row);
    const uint32_t flags = memcached_result_flags(row);
    char* data = bytes == 0 ? nullptr : memcached_result_take_value(row);
    found.insert_or_assign(std::move(key), Value(data, bytes, flags));
    memcached_result_free(row);
  }
  // the end of a complete answer is MEMCACHED_END, or NOTFOUND when nothing was there
  const Error error = read_error(code);
  if (error.kind != ErrorKind::kNotFound) return std::unexpected(error);
  return found;
}

Result<> Client::put(std::string_view key, std::string_view object, const PutOptions& options) {
  if (auto valid = validate_key(key); !valid) return valid;
  if (object.size() > kMaxObjectBytes) {
    return fail(ErrorKind::kInvalid, "the object is larger than 1 GiB");
  }
  const memcached_return_t code =
      memcached_set(handle_.get(), key.data(), key.size(), object.data(), object.size(),
                    options.exptime, options.flags);
  if (code != MEMCACHED_SUCCESS) return std::unexpected(error_of(code));
  return {};
}

namespace {

uint64_t number_in(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Result<Range> Client::get_range(std::string_view key, uint64_t offset, uint64_t length) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  std::string line = "mg " + std::string(key) + " v c s o" + std::to_string(offset) + " n" +
                     std::to_string(length);
  auto answer = meta_->ask(line);
  if (!answer) return std::unexpected(answer.error());
  if (answer->code() == "EN") return fail(ErrorKind::kNotFound, "no such object");
  if (answer->code() != "VA") return fail(ErrorKind::kServer, "it answers " + answer->line);
  return Range{.bytes = std::move(answer->data),
               .cas = number_in(answer->flag('c')),
               .object_bytes = number_in(answer->flag('s'))};
}

Result<uint64_t> Client::update(std::string_view key, uint64_t offset, std::string_view bytes,
                                const UpdateOptions& options) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  std::string line = "ms " + std::string(key) + " " + std::to_string(bytes.size()) + " c s o" +
                     std::to_string(offset);
  if (options.cas) line += " C" + std::to_string(*options.cas);
  const auto answer = meta_->ask(line, &bytes);
  if (!answer) return std::unexpected(answer.error());
  const std::string_view code = answer->code();
  if (code == "HD") return number_in(answer->flag('c'));
  if (code == "NF") return fail(ErrorKind::kNotFound, "no such object");
  if (code == "EX") return fail(ErrorKind::kExists, "the object has another cas unique");
  if (code == "NS") {
    return fail(ErrorKind::kOutOfRange,
                "the object has " + std::string(answer->flag('s')) + " bytes");
  }
  return fail(ErrorKind::kServer, "it answers " + answer->line);
}

Result<> Client::append(std::string_view key, std::string_view bytes) {
  if (auto valid = validate_key(key); !valid) return valid;
  const memcached_return_t code =
      memcached_append(handle_.get(), key.data(), key.size(), bytes.data(), bytes.size(), 0, 0);
  if (code == MEMCACHED_SUCCESS) return {};
  if (code == MEMCACHED_NOTSTORED) return fail(ErrorKind::kNotFound, "no such object");
  return std::unexpected(error_of(code));
}

Result<> Client::remove(std::string_view key) {
  if (auto valid = validate_key(key); !valid) return valid;
  const memcached_return_t code = memcached_delete(handle_.get(), key.data(), key.size(), 0);
  if (code == MEMCACHED_SUCCESS) return {};
  if (code == MEMCACHED_NOTFOUND) return fail(ErrorKind::kNotFound, "no such object");
  return std::unexpected(error_of(code));
}

Result<std::vector<std::pair<std::string, std::string>>> Client::stats(std::string_view group) {
  std::vector<std::pair<std::string, std::string>> rows;
  const std::string argument(group);
  const memcached_return_t code = memcached_stat_execute(
      handle_.get(), argument.empty() ? nullptr : argument.c_str(), collect_stat, &rows);
  if (code != MEMCACHED_SUCCESS && code != MEMCACHED_END) return std::unexpected(error_of(code));
  return rows;
}

}  // namespace elastripe::client
