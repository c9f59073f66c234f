// elastripe status, watch, object, accept-loss: what the admin interface tells
// (docs/admin-api.md).
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tools/cli/admin.h"
#include "tools/cli/answer.h"
#include "tools/cli/commands.h"
#include "tools/cli/status_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string where(const Json& shard) {
  if (part(shard, "node").is_null()) return "(not written)";
  if (part(shard, "missing") == true) return shown(shard, "node") + "(missing)";
  if (part(shard, "unreachable") == true) return shown(shard, "node") + "(unreachable)";
  return shown(shard, "node");
}

// Nothing, if the object was never updated.
void print_log(const Json& object) {
  if (number(object, "last_lsn") == 0) return;
  fmt::print("{:<14} {}\n", "last update", shown(object, "last_lsn"));
  const Json& log = part(object, "log");
  if (number(log, "bytes") == 0) return;
  fmt::print("{:<14} {} bytes not folded for {:.1f} s, {} of them not settled\n", "update log",
             shown(log, "bytes"), number(log, "age_ms") / 1000, shown(log, "unsettled_bytes"));
}

void print_object(const Json& object) {
  for (const char* key : {"key", "kind", "size", "scheme", "flags", "exptime", "flushed", "version",
                          "value_version", "fence"}) {
    if (object.contains(key)) fmt::print("{:<14} {}\n", key, shown(object, key));
  }
  std::string homes;
  for (const Json& home : part(object, "homes")) {
    homes += (homes.empty() ? "" : ", ") + home.get<std::string>();
  }
  fmt::print("{:<14} {} (tail first)\n", "homes", homes);
  if (!object.contains("segments")) return;
  print_log(object);
  fmt::print("{:<14} {}, {} unreachable\n", "missing shards", shown(object, "missing_shards"),
             shown(object, "unreachable_shards"));
  for (const Json& segment : object["segments"]) {
    const bool is_folded = number(segment, "folded_lsn") > 0;
    fmt::print("segment {}: {} bytes, state {}, generation {}{}\n ", shown(segment, "number"),
               shown(segment, "length"), shown(segment, "state"), shown(segment, "generation"),
               is_folded ? ", updates folded up to " + shown(segment, "folded_lsn") : "");
    for (const Json& shard : part(segment, "shards")) {
      fmt::print(" {}:{}", shown(shard, "role"), where(shard));
    }
    fmt::print("\n");
  }
}

Result<std::string> status_shown(const Globals& globals) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  const auto status = admin->get("/v1/status");
  if (!status) return std::unexpected(status.error());
  if (globals.json) return status->dump(2) + "\n";
  return status_text(*status, admin->get("/v1/jobs").value_or(Json()));
}

Result<> status(const Globals& globals) {
  const auto shown = status_shown(globals);
  if (!shown) return std::unexpected(shown.error());
  fmt::print("{}", *shown);
  return {};
}

void end_well(int) { _exit(0); }

// A proxy that has once answered may be away for a while.
Result<> watch(const Globals& globals, double every_s, int count) {
  std::signal(SIGINT, end_well);
  const bool redraws = isatty(STDOUT_FILENO) != 0;
  for (int round = 1;; ++round) {
    const auto shown = status_shown(globals);
    const bool is_last = round == count;
    if (!shown && (round == 1 || is_last)) return std::unexpected(shown.error());
    fmt::print("{}{}", redraws ? "\x1b[H\x1b[J" : "", shown ? *shown : shown.error() + "\n");
    if (!redraws && !globals.json && !is_last) fmt::print("\n");
    std::fflush(stdout);
    if (is_last) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
  }
}

// An object of very many segments is shown page by page; here all are put together.
Result<Json> whole_object(const Globals& globals, const std::string& path) {
  auto object = fetch(globals, path);
  while (object && object->contains("segments")) {
    Json& segments = (*object)["segments"];
    if (static_cast<double>(segments.size()) >= number(*object, "segments_total")) break;
    auto page = fetch(globals, fmt::format("{}?first={}", path, segments.size()));
    if (!page) return std::unexpected(page.error());
    if (shown(*page, "version") != shown(*object, "version") || part(*page, "segments").empty()) {
      return fail("the object was changed meanwhile; ask again");
    }
    for (Json& segment : (*page)["segments"]) segments.push_back(std::move(segment));
    for (const char* count : {"missing_shards", "unreachable_shards"}) {
      (*object)[count] = object->value(count, uint64_t{0}) + page->value(count, uint64_t{0});
    }
  }
  return object;
}

Result<> object(const Globals& globals, const std::string& key) {
  const auto object = whole_object(globals, "/v1/objects/" + url_escape(key));
  if (!object) return std::unexpected(object.error());
  if (globals.json) {
    print_json(*object);
  } else {
    print_object(*object);
  }
  return {};
}

Result<> accept_loss(const Globals& globals) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  const auto answer = admin->act("accept-loss");
  if (!answer) return std::unexpected(answer.error());
  if (globals.json) {
    print_json(*answer);
    return {};
  }
  fmt::print("accepted: {} partitions start empty\n", shown(*answer, "partitions_start_empty"));
  if (number(*answer, "objects_lost") > 0) {
    fmt::print("{} lost objects are deleted, in the background\n", shown(*answer, "objects_lost"));
  }
  if (number(*answer, "partitions_lost") > 0) {
    fmt::print("{} partitions are lost now; accept-loss again lets them start empty\n",
               shown(*answer, "partitions_lost"));
  }
  return {};
}

}  // namespace

void add_status_commands(CLI::App& app, Globals& globals) {
  CLI::App* command = app.add_subcommand("status", "Shows the cluster: state, epoch, partitions");
  command->callback([&globals] { report(globals, status(globals)); });

  auto every_s = std::make_shared<double>(2);
  auto count = std::make_shared<int>(0);
  command = app.add_subcommand("watch", "Shows the status again and again, until Ctrl-C");
  command->add_option("--every", *every_s, "Seconds between two looks")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  command->add_option("--count", *count, "End after so many; 0: never")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command->callback(
      [&globals, every_s, count] { report(globals, watch(globals, *every_s, *count)); });

  auto key = std::make_shared<std::string>();
  command = app.add_subcommand(
      "object", "Shows how an object is stored: versions, placement, missing shards, update log");
  command->add_option("KEY", *key)->required();
  command->callback([&globals, key] { report(globals, object(globals, *key)); });

  command = app.add_subcommand("accept-loss",
                               "Lets keys of partitions that lost all their homes be misses");
  command->callback([&globals] { report(globals, accept_loss(globals)); });
}

}  // namespace elastripe::cli
