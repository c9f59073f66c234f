#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tools/bench/runner.h"

namespace elastripe::bench {
namespace {

// A case that says in `log` which turns it makes, and notes their numbers; its turn `fails` fails.
Case logging(const std::string& name, std::vector<std::string>& log, size_t fails = 99) {
  return {{{"name", name}}, quartiles, [name, &log, fails](Notes& notes, size_t number) {
            log.push_back(name + std::to_string(number));
            notes.add("at/number", static_cast<double>(number));
            notes.figures["at"]["last"] = number;
            return number == fails ? cli::Result<>(cli::fail("reason")) : cli::Result<>();
          }};
}

}  // namespace

TEST_CASE("each round makes a turn of every case, one group after the other") {
  std::vector<std::string> log;
  const auto rows = measure({{logging("a", log), logging("b", log)}, {logging("c", log)}},
                            {.rounds = 2, .shuffled = false});
  CHECK(log == std::vector<std::string>{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"});
  REQUIRE(rows);
  REQUIRE(rows->size() == 3);
  CHECK((*rows)[1].at("name") == "b");
}

TEST_CASE("samples of the turn that warms up are dropped, figures are kept beside the spreads") {
  std::vector<std::string> log;
  const auto rows = measure({{logging("a", log)}}, {.rounds = 3});
  REQUIRE(rows);
  const Json& at = rows->front().at("at");
  CHECK(at.at("number").at("samples") == Json{1.0, 2.0, 3.0});
  CHECK(at.at("number").at("median") == 2);
  CHECK(at.at("last") == 3);
}

TEST_CASE("there is no turn 0 where nothing has to warm up") {
  std::vector<std::string> log;
  REQUIRE(measure({{logging("a", log)}}, {.rounds = 1, .warm_up = false}));
  CHECK(log == std::vector<std::string>{"a1"});
}

TEST_CASE("cases of a group come in another order from round to round, rows in theirs") {
  std::vector<std::string> log;
  Group group;
  for (const char* name : {"a", "b", "c", "d"}) group.push_back(logging(name, log));
  const auto rows = measure({group}, {.rounds = 20});
  REQUIRE(rows);
  std::string firsts;
  for (size_t i = 0; i < log.size(); i += 4) firsts += log[i].front();
  CHECK(firsts.find_first_not_of(firsts.front()) != std::string::npos);
  CHECK((*rows)[3].at("name") == "d");
}

TEST_CASE("an error ends the run and says of what it is") {
  std::vector<std::string> log;
  const auto rows =
      measure({{logging("a", log, 1), logging("b", log)}}, {.rounds = 5, .shuffled = false});
  REQUIRE_FALSE(rows);
  CHECK(rows.error() == R"({"name":"a"}: reason)");
  CHECK(log == std::vector<std::string>{"a0", "b0", "a1"});
}

}  // namespace elastripe::bench
