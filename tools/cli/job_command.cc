// elastripe job: shows the jobs that somebody asked for, and cancels one (docs/admin-api.md).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"
#include "tools/cli/answer.h"
#include "tools/cli/commands.h"
#include "tools/cli/job_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string one_line(const Json& report) {
  const std::string how_far =
      is_running(report) ? ": " + progress_line(report, JobPace(), /*bar=*/false) : "";
  return fmt::format("{}: {}{}\n", title_of(report), text(report, "state"), how_far);
}

Result<> show_jobs(const Globals& globals) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  const auto jobs = admin->get("/v1/jobs");
  if (!jobs) return std::unexpected(jobs.error());
  if (globals.json) {
    fmt::print("{}\n", jobs->dump(2));
    return {};
  }
  for (const Json& report : part(*jobs, "jobs")) fmt::print("{}", one_line(report));
  return {};
}

Result<> cancel_job(const Globals& globals, uint64_t id) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  const auto report = admin->post(fmt::format("/v1/jobs/{}/cancel", id), "job");
  if (!report) return std::unexpected(report.error());
  fmt::print("{}", globals.json ? report->dump(2) + "\n" : one_line(*report));
  return {};
}

}  // namespace

void add_job_command(CLI::App& app, Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "job",
      "Shows the transitions, repairs, scrubs, rebalances and recycles that somebody asked for");
  command->require_subcommand(0, 1);
  command->callback([command, &globals] {
    if (command->get_subcommands().empty()) report(globals, show_jobs(globals));
  });
  auto id = std::make_shared<uint64_t>(0);
  CLI::App* cancel =
      command->add_subcommand("cancel", "Cancels one: objects that have begun are finished first");
  cancel->add_option("ID", *id, "As elastripe job shows it")->required();
  cancel->callback([id, &globals] { report(globals, cancel_job(globals, *id)); });
}

}  // namespace elastripe::cli
