// elastripe put, get, remove: objects through a proxy, by its memcached protocol.
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

Result<> get(const Globals& globals, const Arguments& arguments) {
  auto client = connect(globals);
  if (!client) return std::unexpected(client.error());
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
  add("remove", "Removes an object", remove);
}

}  // namespace elastripe::cli
