// What commands show of the jobs that they start, from the reports of the admin interface
// (docs/admin-api.md): pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace elastripe::cli {

// The exit status that a job's end is told with.
inline constexpr int kExitDone = 0;  // every object is as it should be, or the job is not for it
inline constexpr int kExitUnfinished = 3;  // some were refused or failed, or the job did
inline constexpr int kExitCancelled = 130;

bool is_running(const nlohmann::ordered_json& report);
int exit_status_of(const nlohmann::ordered_json& report);

// How fast the objects of a running job go, from one report to the next.
class JobPace {
 public:
  void note(const nlohmann::ordered_json& report);
  std::optional<double> bytes_per_second() const;

 private:
  struct Point {
    double seconds = 0;
    double bytes = 0;
  };
  std::optional<Point> first_;  // since it does not only count
  Point last_;
};

// "transition 3 (prefix logs/, to 10, dry run)": which one it is, and what was asked for.
std::string title_of(const nlohmann::ordered_json& report);

// One line without its end: how far the job is. With a bar, or in words.
std::string progress_line(const nlohmann::ordered_json& report, const JobPace& pace, bool bar);

// Lines. After the end of a job.
std::string summary_of(const nlohmann::ordered_json& report);
// What a dry run tells; `jobs` is GET /v1/jobs: the last of the same kind that has ended tells a
// rate if the dry run was given none.
std::string forecast_of(const nlohmann::ordered_json& report, const nlohmann::ordered_json& jobs);

}  // namespace elastripe::cli
