#include "tools/cli/job_watch.h"

#include <fmt/core.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"
#include "tools/cli/job_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPollMs = 250;
constexpr int kPollsPerLine = 20;  // where there is no terminal
constexpr int kTries = 5;          // of a request

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
  JobPace pace_;
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
Result<Json> watch(const AdminClient& admin, const JobRequest& job, Json report) {
  const std::string path = fmt::format("{}/{}", job.path, report.value("id", uint64_t{0}));
  Display display;
  bool cancel_sent = false;
  while (is_running(report)) {
    if (stop_asked != 0 && !cancel_sent) {
      display.say("cancelling: objects that have begun are finished first");
      const auto answer = ask([&] { return admin.post(path + "/cancel", job.kind); });
      if (!answer) return std::unexpected(answer.error());
      cancel_sent = true;
    }
    display.show(report);
    wait_a_moment();
    auto next = ask([&] { return admin.get(path); });
    if (!next) {
      display.clear();
      return fail(
          "{}; if the proxy has ended, another one goes on with the {}: ask it for its jobs",
          next.error(), job.kind);
    }
    report = std::move(*next);
  }
  display.clear();
  return report;
}

}  // namespace

void add_job_options(CLI::App& command, JobArguments& arguments) {
  command.add_flag("--dry-run", arguments.dry_run,
                   "Only tell objects, bytes, memory and time; change nothing");
  command
      .add_option("--rate", arguments.rate,
                  "At most so many bytes a second to and from the nodes, as 200M (K, M, G are "
                  "powers of 1024); 0: no limit")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--parallel", arguments.parallel, "Objects at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

Result<> run_job(Globals& globals, const JobRequest& job, Json body) {
  body["dry_run"] = job.common.dry_run;
  if (job.common.rate) body["rate"] = *job.common.rate;
  body["parallel"] = job.common.parallel;
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  catch_stop();
  auto report = admin->post(job.path, job.kind, body.dump());
  if (!report) return std::unexpected(report.error());
  const bool watches = job.watches || job.common.dry_run;
  if (watches) report = watch(*admin, job, std::move(*report));
  if (!report) return std::unexpected(report.error());
  if (globals.json) {
    fmt::print("{}\n", report->dump(2));
  } else if (!watches) {
    fmt::print("{} {} has started; elastripe status tells how far it is\n", job.kind,
               report->value("id", uint64_t{0}));
  } else if (job.common.dry_run) {
    fmt::print("{}", forecast_of(*report, admin->get("/v1/jobs").value_or(Json())));
  } else {
    fmt::print("{}", summary_of(*report));
  }
  if (watches) globals.exit_status = exit_status_of(*report);
  return {};
}

}  // namespace elastripe::cli
