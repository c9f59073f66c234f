#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "proxy/base/check.h"

namespace {

struct Outcome {
  bool aborted;
  std::string output;
};

// Runs `body` in a child process and tells how it ended and what it wrote to standard error.
template <class Body>
Outcome run_in_child(Body body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    std::signal(SIGABRT, SIG_DFL);  // not Catch2's handler
    body();
    _exit(0);
  }
  close(ends[1]);
  Outcome outcome{};
  char chunk[512];
  ssize_t got = 0;
  while ((got = read(ends[0], chunk, sizeof chunk)) > 0) {
    outcome.output.append(chunk, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return outcome;
}

}  // namespace

TEST_CASE("a failed check aborts with condition, message and place", "[check]") {
  const Outcome outcome =
      run_in_child([] { ELASTRIPE_CHECK(1 + 1 == 3, "sum of {} and {}", 1, "one"); });
  CHECK(outcome.aborted);
  CHECK(outcome.output.find("1 + 1 == 3: sum of 1 and one") != std::string::npos);
  CHECK(outcome.output.find("test_check.cc:") != std::string::npos);
}

TEST_CASE("a check that holds evaluates its condition once and nothing else", "[check]") {
  int evaluated = 0;
  int formatted = 0;
  ELASTRIPE_CHECK(++evaluated == 1, "{}", ++formatted);
  CHECK(evaluated == 1);
  CHECK(formatted == 0);
}
