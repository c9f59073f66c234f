// elastripe transition: starts a job at the proxy, shows how it goes, cancels it on Ctrl-C.
#include <fmt/core.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"
#include "tools/cli/commands.h"
#include "tools/cli/transition_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPollMs = 250;
constexpr int kPollsPerLine = 20;  // where there is no terminal
constexpr int kTries = 5;          // of a request

struct Arguments {
  std::string key;
  std::string prefix;
  bool all = false;
  int to = 0;
  bool dry_run = false;
  uint64_t rate = 0;
  uint32_t parallel = 4;
  std::string execution = "delta";
};

// Set by the first SIGINT or SIGTERM; the second ends the command.
volatile sig_atomic_t stop_asked = 0;

void on_stop(int) { stop_asked = 1; }

void catch_stop() {
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// Shorter if a signal comes.
void wait_a_moment() {
  const timespec moment = {0, kPollMs * 1'000'000L};
  nanosleep(&moment, nullptr);
}

Json body_of(const Arguments& arguments) {
  Json body = {{"to", arguments.to},
               {"dry_run", arguments.dry_run},
               {"rate", arguments.rate},
               {"parallel", arguments.parallel},
               {"execution", arguments.execution}};
  if (arguments.all) body["all"] = true;
  if (!arguments.key.empty()) body["key"] = arguments.key;
  if (!arguments.prefix.empty()) body["prefix"] = arguments.prefix;
  return body;
}

// On standard error, so that standard output has the result alone.
class Display {
 public:
  void show(const Json& report) {
    pace_.note(report);
    if (!terminal_ && shown_++ % kPollsPerLine != 0) return;
    const std::string line = progress_line(report, pace_, terminal_);
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }
  void say(const char* text) const {
    clear();
    fmt::print(stderr, "{}\n", text);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  int shown_ = 0;
  TransitionPace pace_;
};

// What may be asked more than once.
template <class Request>
Result<Json> ask(const Request& request) {
  for (int tries = 1;; ++tries) {
    auto answer = request();
    if (answer || tries == kTries) return answer;
    wait_a_moment();
  }
}

// Until it has ended.
Result<Json> watch(const AdminClient& admin, Json report) {
  const std::string path = fmt::format("/v1/transitions/{}", report.value("id", uint64_t{0}));
  Display display;
  bool cancel_sent = false;
  while (is_running(report)) {
    if (stop_asked != 0 && !cancel_sent) {
      display.say("cancelling: objects that have begun are finished first");
      const auto answer = ask([&] { return admin.post(path + "/cancel", "transition"); });
      if (!answer) return std::unexpected(answer.error());
      cancel_sent = true;
    }
    display.show(report);
    wait_a_moment();
    auto next = ask([&] { return admin.get(path); });
    if (!next) {
      display.clear();
      return fail("{}; the proxy may have ended, and the transition with it: run it again to go on",
                  next.error());
    }
    report = std::move(*next);
  }
  display.clear();
  return report;
}

Result<> transition(Globals& globals, const Arguments& arguments) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  catch_stop();
  auto started = admin->post("/v1/transitions", "transition", body_of(arguments).dump());
  if (!started) return std::unexpected(started.error());
  const auto report = watch(*admin, std::move(*started));
  if (!report) return std::unexpected(report.error());
  if (globals.json) {
    fmt::print("{}\n", report->dump(2));
  } else if (arguments.dry_run) {
    fmt::print("{}", forecast_of(*report, admin->get("/v1/transitions").value_or(Json())));
  } else {
    fmt::print("{}", summary_of(*report));
  }
  globals.exit_status = exit_status_of(*report);
  return {};
}

}  // namespace

void add_transition_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "transition", "Takes stored objects to another k, while clients read and write");
  CLI::Option_group* which = command->add_option_group("objects", "Which objects");
  which->require_option(1);
  which->add_option("--key", arguments->key, "One object");
  which->add_option("--prefix", arguments->prefix, "All whose keys begin so");
  which->add_flag("--all", arguments->all, "All objects");
  command->add_option("--to", arguments->to, "The k to have: the k or k' of the objects' scheme")
      ->required()
      ->check(CLI::Range(1, 255));
  command->add_flag("--dry-run", arguments->dry_run,
                    "Only tell objects, bytes, memory and time; change nothing");
  command
      ->add_option("--rate", arguments->rate,
                   "At most so many bytes a second to and from the nodes, as 200M (K, M, G are "
                   "powers of 1024); 0: no limit")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--parallel", arguments->parallel, "Objects at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      ->add_option("--execution", arguments->execution,
                   "delta: parity nodes build on their old parities; proxy: the proxy reads and "
                   "writes whole parities")
      ->check(CLI::IsMember({"delta", "proxy"}))
      ->capture_default_str();
  command->footer(
      "Ctrl-C cancels: objects that have begun are finished. The same command again goes on.\n"
      "Exit status: 0 done; 1 no proxy, or it refuses; 2 wrong command line; 3 objects were\n"
      "refused or failed, or the transition did; 130 cancelled.");
  command->callback([arguments, &globals] { report(globals, transition(globals, *arguments)); });
}

}  // namespace elastripe::cli
