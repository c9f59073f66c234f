#include "tools/bench/request_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "tools/bench/system_calls.h"

namespace elastripe::bench {
namespace {

using CallsByName = std::map<std::string, uint64_t>;

double per_request(const CallsByName& calls, uint64_t requests) {
  uint64_t sum = 0;
  for (const auto& [name, count] : calls) sum += count;
  return static_cast<double>(sum) / static_cast<double>(std::max<uint64_t>(requests, 1));
}

// The most frequent ones: "sendmsg 0.51, recvfrom 0.50".
std::string text_of(const CallsByName& calls, uint64_t requests) {
  std::vector<std::pair<uint64_t, std::string>> sorted;
  sorted.reserve(calls.size());
  for (const auto& [name, count] : calls) sorted.emplace_back(count, name);
  std::ranges::sort(sorted, std::greater<>());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(sorted.size(), 4); ++i) {
    const double share = static_cast<double>(sorted[i].first) / static_cast<double>(requests);
    if (share < 0.01) break;
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", sorted[i].second, share);
  }
  return text;
}

}  // namespace

cli::Result<RequestCalls> count_calls(const Target& target,
                                      const std::function<cli::Result<uint64_t>()>& make_requests) {
  RequestCalls result;
  auto front = SystemCallCount::start(target.front);
  if (!front) return std::unexpected(front.error());
  std::optional<SystemCallCount> back;
  if (!target.back.empty()) {
    auto started = SystemCallCount::start(target.back);
    if (!started) return std::unexpected(started.error());
    back.emplace(std::move(*started));
  }
  const auto requests = make_requests();
  if (!requests) return std::unexpected(requests.error());
  result.requests = *requests;
  auto calls = front->stop();
  if (!calls) return std::unexpected(calls.error());
  result.front = std::move(*calls);
  if (!back) return result;
  calls = back->stop();
  if (!calls) return std::unexpected(calls.error());
  result.back = std::move(*calls);
  return result;
}

std::vector<std::string> call_cells(const RequestCalls& calls) {
  return {fmt::format("{:.2f}", per_request(calls.front, calls.requests)),
          text_of(calls.front, calls.requests),
          fmt::format("{:.2f}", per_request(calls.back, calls.requests)),
          text_of(calls.back, calls.requests)};
}

Json json_of(const RequestCalls& calls) {
  return {{"operations", calls.requests},
          {"front_calls", calls.front},
          {"back_calls", calls.back},
          {"front_calls_per_operation", per_request(calls.front, calls.requests)},
          {"back_calls_per_operation", per_request(calls.back, calls.requests)}};
}

}  // namespace elastripe::bench
