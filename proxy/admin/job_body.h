// JobBody: the JSON body of a request that starts a job, read field by field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/ops/jobs/job_progress.h"

namespace elastripe {

// Remembers what is wrong with the first field that is; reading goes on.
class JobBody {
 public:
  static Result<JobBody> parse(std::string_view body);

  std::optional<std::string> key_text(const char* field);
  std::optional<std::string> text(const char* field);
  std::optional<std::vector<std::string>> texts(const char* field);  // a list
  std::optional<bool> flag(const char* field);
  std::optional<uint64_t> number(const char* field, uint64_t least, uint64_t most);
  // One of `words`, by its place among them.
  std::optional<size_t> word(const char* field, const std::vector<std::string>& words);
  // What every job takes: dry_run, rate and parallel.
  void read_common(jobs::JobSpec& spec);
  // What none of the above tells.
  void complain(std::string_view field, std::string_view why);
  // Fields that were not asked for until now are wrong.
  void complain_of_unknown();
  // kInvalid: the first problem.
  Result<void> check() const;

 private:
  using Json = nlohmann::ordered_json;

  explicit JobBody(Json body) : body_(std::move(body)) {}
  const Json* find(const char* field);

  Json body_;
  std::vector<std::string> known_;
  std::string problem_;
};

}  // namespace elastripe
