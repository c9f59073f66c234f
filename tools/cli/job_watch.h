// Starts a job at the proxy, shows how it goes, cancels it on Ctrl-C.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tools/cli/commands.h"

namespace elastripe::cli {

// What the options of all such commands say.
struct JobArguments {
  bool dry_run = false;
  std::optional<uint64_t> rate = {};  // the kind's own
  uint32_t parallel = 4;
};

void add_job_options(CLI::App& command, JobArguments& arguments);

struct JobRequest {
  std::string path;  // /v1/transitions
  std::string kind;  // transition
  JobArguments common;
  bool watches = true;  // until its end; a dry run always is
};

// `body` has what only this kind takes. Prints what comes of it, and sets the exit status.
Result<> run_job(Globals& globals, const JobRequest& request, nlohmann::ordered_json body);

}  // namespace elastripe::cli
