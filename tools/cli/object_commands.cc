// elastripe put, get, update, append, remove: objects through a proxy, by its memcached protocol.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "client-lib/client.h"
#include "tools/cli/commands.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::json;

struct Arguments {
  std::string key;
  std::string file = "-";
  uint32_t flags = 0;
  int64_t exptime = 0;
  uint64_t offset = 0;
  std::optional<uint64_t> length = {};
  std::optional<uint64_t> cas = {};
};

template <class T>
Result<T> explain(client::Result<T> result) {
  if (!result) {
    return fail("{}: {}", client::name(result.error().kind), result.error().message);
  }
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*result);
  }
}

Result<client::Client> connect(const Globals& globals) {
  const auto options = client::parse_address(globals.server);
  if (!options) return fail("{}: {}", globals.server, options.error().message);
  return explain(client::Client::create(*options));
}

Result<std::string> read_all(const std::string& file) {
  std::ifstream opened;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    struct stat status{};
    if (!opened || ::stat(file.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) {
      return fail("cannot read {}", file);
    }
  }
  std::istream& in = file == "-" ? std::cin : opened;
  std::string bytes;
  std::string chunk(1 << 20, '\0');
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    bytes.append(chunk, 0, static_cast<size_t>(in.gcount()));
    if (bytes.size() > client::kMaxObjectBytes) return fail("{} is larger than 1 GiB", file);
  }
  return bytes;
}

Result<> write_all(const std::string& file, std::string_view bytes) {
  std::FILE* out = file == "-" ? stdout : std::fopen(file.c_str(), "wb");
  if (out == nullptr) return fail("cannot write {}", file);
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
  ok = (out == stdout ? std::fflush(out) : std::fclose(out)) == 0 && ok;
  if (!ok) return fail("cannot write {}", file);
  return {};
}

Result<> put(const Globals& globals, const Arguments& arguments) {
  const auto bytes = read_all(arguments.file);
  if (!bytes) return std::unexpected(bytes.error());
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
  client::PutOptions options;
  options.flags = arguments.flags;
  options.exptime = arguments.exptime;
  if (auto done = explain(client->put(arguments.key, *bytes, options)); !done) return done;
  if (globals.json) {
    fmt::print("{}\n", Json{{"key", arguments.key}, {"bytes", bytes->size()}}.dump());
  }
  return {};
}

Result<> get_range(const Globals& globals, client::Client& client, const Arguments& arguments) {
  const auto range = explain(
      client.get_range(arguments.key, arguments.offset, arguments.length.value_or(UINT64_MAX)));
  if (!range) return std::unexpected(range.error());
  if (auto done = write_all(arguments.file, range->bytes); !done) return done;
  if (globals.json && arguments.file != "-") {
    fmt::print("{}\n", Json{{"key", arguments.key},
                            {"bytes", range->bytes.size()},
                            {"object_bytes", range->object_bytes},
                            {"cas", range->cas}}
                           .dump());
  }
  return {};
}

Result<> update(const Globals& globals, const Arguments& arguments) {
  const auto bytes = read_all(arguments.file);
  if (!bytes) return std::unexpected(bytes.error());
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
  const auto cas =
      explain(client->update(arguments.key, arguments.offset, *bytes, {.cas = arguments.cas}));
  if (!cas) return std::unexpected(cas.error());
  if (globals.json) {
    fmt::print("{}\n",
               Json{{"key", arguments.key}, {"bytes", bytes->size()}, {"cas", *cas}}.dump());
  }
  return {};
}

Result<> append(const Globals& globals, const Arguments& arguments) {
  const auto bytes = read_all(arguments.file);
  if (!bytes) return std::unexpected(bytes.error());
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
  if (auto done = explain(client->append(arguments.key, *bytes)); !done) return done;
  if (globals.json) {
    fmt::print("{}\n", Json{{"key", arguments.key}, {"bytes", bytes->size()}}.dump());
  }
  return {};
}

Result<> get(const Globals& globals, const Arguments& arguments) {
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
  if (arguments.offset > 0 || arguments.length) return get_range(globals, *client, arguments);
  const auto value = explain(client->get(arguments.key));
  if (!value) return std::unexpected(value.error());
  if (auto done = write_all(arguments.file, value->bytes()); !done) return done;
  if (globals.json && arguments.file != "-") {
    fmt::print(
        "{}\n",
        Json{{"key", arguments.key}, {"bytes", value->bytes().size()}, {"flags", value->flags()}}
            .dump());
  }
  return {};
}

Result<> remove(const Globals& globals, const Arguments& arguments) {
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
  return explain(client->remove(arguments.key));
}

}  // namespace

void add_object_commands(CLI::App& app, Globals& globals) {
  const auto add = [&](const char* name, const char* help, auto action) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("KEY", arguments->key, "1 to 250 bytes without white space")->required();
    command->callback(
        [arguments, action, &globals] { report(globals, action(globals, *arguments)); });
    return std::pair(command, arguments);
  };
  const auto [put_command, put_arguments] = add("put", "Stores a file as an object", put);
  put_command->add_option("FILE", put_arguments->file, "- for standard input")->required();
  put_command->add_option("--flags", put_arguments->flags, "memcached's client flags");
  put_command->add_option("--exptime", put_arguments->exptime,
                          "memcached's expiry: seconds from now, or Unix time; 0 never");
  const auto [get_command, get_arguments] = add("get", "Writes an object to a file", get);
  get_command->add_option("FILE", get_arguments->file, "Default: standard output");
  get_command->add_option("--offset", get_arguments->offset, "From this byte on (0)");
  get_command->add_option("--length", get_arguments->length, "At most so many bytes");
  const auto [update_command, update_arguments] =
      add("update", "Puts a file's bytes in the place of those that an object has", update);
  update_command->add_option("FILE", update_arguments->file, "- for standard input")->required();
  update_command->add_option("--offset", update_arguments->offset, "Where they begin")->required();
  update_command->add_option("--cas", update_arguments->cas,
                             "Only if the object's cas unique is this one");
  const auto [append_command, append_arguments] =
      add("append", "Adds a file's bytes to the end of an object", append);
  append_command->add_option("FILE", append_arguments->file, "- for standard input")->required();
  add("remove", "Removes an object", remove);
}

}  // namespace elastripe::cli
