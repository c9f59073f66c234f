#include "client-lib/client.h"

#include <libmemcached/memcached.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "client-lib/classic_connection.h"
#include "client-lib/fail.h"
#include "client-lib/meta_connection.h"

namespace elastripe::client {
namespace {

constexpr size_t kKeysOfARequest = 1000;

Result<> validate(std::string_view key, std::string_view object) {
  if (auto valid = validate_key(key); !valid) return valid;
  if (object.size() > kMaxObjectBytes) {
    return fail(ErrorKind::kInvalid, "the object is larger than 1 GiB");
  }
  return {};
}

// Reads all answers to a request for `keys`.
memcached_return_t fetch(memcached_st* handle, std::span<const std::string> keys, Values& found) {
  const std::set<std::string_view> asked(keys.begin(), keys.end());
  memcached_result_st row;
  memcached_result_create(handle, &row);
  // libmemcached takes an error for a miss if no object came before it.
  row.count = 1;
  memcached_return_t code = MEMCACHED_SUCCESS;
  while (memcached_fetch_result(handle, &row, &code) != nullptr) {
    std::string key(memcached_result_key_value(&row), memcached_result_key_length(&row));
    if (!asked.contains(key)) {
      code = MEMCACHED_PROTOCOL_ERROR;
      break;
    }
    const size_t bytes = memcached_result_length(&row);
    const uint32_t flags = memcached_result_flags(&row);
    const uint64_t cas = memcached_result_cas(&row);
    char* data = bytes == 0 ? nullptr : memcached_result_take_value(&row);
    found.insert_or_assign(std::move(key), Value(data, bytes, flags, cas));
  }
  memcached_result_free(&row);
  return code == MEMCACHED_END ? MEMCACHED_SUCCESS : code;
}

}  // namespace

struct Client::Connections {
  explicit Connections(const Options& chosen) : options(chosen), classic(chosen), meta(chosen) {}

  Options options;
  ClassicConnection classic;
  MetaConnection meta;
};

Client::Client(const Options& options) : connections_(std::make_unique<Connections>(options)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Result<Client> Client::create(const Options& options) {
  if (auto valid = validate_options(options); !valid) return std::unexpected(valid.error());
  return Client(options);
}

const Options& Client::options() const { return connections_->options; }

// -- whole objects

Result<> Client::get_some(std::span<const std::string> keys, Values& found) {
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const std::string& key : keys) {
    starts.push_back(key.data());
    lengths.push_back(key.size());
  }
  return connections_->classic.run([&](memcached_st* handle) {
    const memcached_return_t code =
        memcached_mget(handle, starts.data(), lengths.data(), keys.size());
    return code == MEMCACHED_SUCCESS ? fetch(handle, keys, found) : code;
  });
}

Result<Value> Client::get(std::string_view key) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  const std::string name(key);
  Values found;
  if (auto done = get_some({&name, 1}, found); !done) return std::unexpected(done.error());
  if (found.empty()) return fail(ErrorKind::kNotFound, "no such object");
  return std::move(found.begin()->second);
}

Result<Values> Client::get_many(std::span<const std::string> keys) {
  for (const std::string& key : keys) {
    if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  }
  Values found;
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys.size(), kKeysOfARequest));
    keys = keys.subspan(some.size());
    if (auto done = get_some(some, found); !done) return std::unexpected(done.error());
  }
  return found;
}

Result<> Client::store(std::string_view command, std::string_view key, std::string_view object,
                       const PutOptions& options, const Error& not_stored) {
  if (auto valid = validate(key, object); !valid) return valid;
  std::string line(command);
  line.append(" ").append(key);
  line += " " + std::to_string(options.flags) + " " + std::to_string(options.exptime) + " " +
          std::to_string(object.size());
  if (options.cas) line += " " + std::to_string(*options.cas);
  const auto answer = connections_->meta.ask(line, &object);
  if (!answer) return std::unexpected(answer.error());
  if (answer->line == "STORED") return {};
  if (answer->line == "NOT_STORED") return std::unexpected(not_stored);
  if (answer->line == "NOT_FOUND") return fail(ErrorKind::kNotFound, "no such object");
  if (answer->line == "EXISTS") {
    return fail(ErrorKind::kExists, "the object has another cas unique");
  }
  return connections_->meta.give_up(*answer);
}

Result<> Client::put(std::string_view key, std::string_view object, const PutOptions& options) {
  // memcached takes it for none.
  if (options.cas == 0) return fail(ErrorKind::kExists, "no object has the cas unique 0");
  return store(options.cas ? "cas" : "set", key, object, options,
               {ErrorKind::kServer, "the object is not stored"});
}

Result<> Client::add(std::string_view key, std::string_view object, const PutOptions& options) {
  if (options.cas)
    return fail(ErrorKind::kInvalid, "an object that is not there has no cas unique");
  return store("add", key, object, options, {ErrorKind::kExists, "there is such an object"});
}

Result<PutErrors> Client::put_many(std::span<const Object> objects, const PutOptions& options) {
  if (options.cas) return fail(ErrorKind::kInvalid, "one cas unique is not of many objects");
  for (const auto& [key, bytes] : objects) {
    if (auto valid = validate(key, bytes); !valid) return std::unexpected(valid.error());
  }
  return connections_->meta.put_many(objects, options);
}

Result<> Client::append(std::string_view key, std::string_view bytes) {
  return store("append", key, bytes, {}, {ErrorKind::kNotFound, "no such object"});
}

Result<> Client::prepend(std::string_view key, std::string_view bytes) {
  return store("prepend", key, bytes, {}, {ErrorKind::kNotFound, "no such object"});
}

Result<uint64_t> Client::increment(std::string_view key, uint64_t delta) {
  return count("incr", key, delta);
}

Result<uint64_t> Client::decrement(std::string_view key, uint64_t delta) {
  return count("decr", key, delta);
}

Result<uint64_t> Client::count(std::string_view command, std::string_view key, uint64_t delta) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  // libmemcached hides why a server does not count, and takes 32 bits in some of its calls.
  const auto answer = connections_->meta.ask(std::string(command) + " " + std::string(key) + " " +
                                             std::to_string(delta));
  if (!answer) return std::unexpected(answer.error());
  if (answer->line == "NOT_FOUND") return fail(ErrorKind::kNotFound, "no such object");
  if (const auto number = answer->as_number()) return *number;
  return connections_->meta.give_up(*answer);
}

Result<> Client::remove(std::string_view key) {
  if (auto valid = validate_key(key); !valid) return valid;
  const auto answer = connections_->meta.ask("delete " + std::string(key));
  if (!answer) return std::unexpected(answer.error());
  if (answer->line == "DELETED") return {};
  if (answer->line == "NOT_FOUND") return fail(ErrorKind::kNotFound, "no such object");
  return connections_->meta.give_up(*answer);
}

Result<> Client::touch(std::string_view key, int64_t exptime) {
  if (auto valid = validate_key(key); !valid) return valid;
  // libmemcached hides why a server does not touch an object.
  const auto answer =
      connections_->meta.ask("touch " + std::string(key) + " " + std::to_string(exptime));
  if (!answer) return std::unexpected(answer.error());
  if (answer->line == "TOUCHED") return {};
  if (answer->line == "NOT_FOUND") return fail(ErrorKind::kNotFound, "no such object");
  return connections_->meta.give_up(*answer);
}

// -- parts of objects

Result<Range> Client::get_range(std::string_view key, uint64_t offset, uint64_t length) {
  if (auto valid = validate_key(key); !valid) return std::unexpected(valid.error());
  auto answer = connections_->meta.ask("mg " + std::string(key) + " v c s o" +
                                       std::to_string(offset) + " n" + std::to_string(length));
  if (!answer) return std::unexpected(answer.error());
  if (answer->code() == "EN") return fail(ErrorKind::kNotFound, "no such object");
  if (answer->code() != "VA" || answer->data.size() > length) {
    return connections_->meta.give_up(*answer);
  }
  return Range{.bytes = std::move(answer->data),
               .cas = answer->number('c'),
               .object_bytes = answer->number('s')};
}

Result<uint64_t> Client::update(std::string_view key, uint64_t offset, std::string_view bytes,
                                const UpdateOptions& options) {
  if (auto valid = validate(key, bytes); !valid) return std::unexpected(valid.error());
  std::string line = "ms " + std::string(key) + " " + std::to_string(bytes.size()) + " c s o" +
                     std::to_string(offset);
  if (options.cas) line += " C" + std::to_string(*options.cas);
  const auto answer = connections_->meta.ask(line, &bytes);
  if (!answer) return std::unexpected(answer.error());
  const std::string_view code = answer->code();
  if (code == "HD") return answer->number('c');
  if (code == "NF") return fail(ErrorKind::kNotFound, "no such object");
  if (code == "EX") return fail(ErrorKind::kExists, "the object has another cas unique");
  if (code == "NS") {
    return fail(ErrorKind::kOutOfRange,
                "the object has " + std::string(answer->flag('s')) + " bytes");
  }
  return connections_->meta.give_up(*answer);
}

// -- the server

Result<Stats> Client::stats(std::string_view group) {
  if (!group.empty()) {
    if (auto valid = validate_key(group); !valid) return std::unexpected(valid.error());
  }
  // libmemcached tells the first word of a value only, and takes nonsense for an end.
  return connections_->meta.stats(group);
}

}  // namespace elastripe::client
