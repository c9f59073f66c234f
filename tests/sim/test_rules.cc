// One test a rule: its directed scenario passes with the rule, and, in a build with mutants, does
// not without it.
#include <algorithm>
#include <iostream>
#include <string>

#include "catch2/catch.hpp"
#include "proxy/base/log.h"
#include "tests/sim/runner.h"

namespace elastripe::sim {
namespace {

// A mutant must be caught within so many schedules.
[[maybe_unused]] constexpr uint64_t kMostSeedsToCatch = 2000;

[[maybe_unused]] void set_mutant([[maybe_unused]] Mutant which) {
#ifdef ELASTRIPE_MUTANTS
  active_mutant = which;
#endif
}

[[maybe_unused]] void describe(const Rule& rule, const Campaign& campaign) {
  for (const Failure& failure : campaign.failures) {
    UNSCOPED_INFO("scenario " << rule.scenario.name << " seed " << failure.seed << ": "
                              << name(failure.fault) << ": " << failure.what);
  }
}

[[maybe_unused]] bool is_harm(const Rule& rule, Fault fault) {
  switch (fault) {
    case Fault::kStale:
    case Fault::kLost:
    case Fault::kTorn:
    case Fault::kVersions:
    case Fault::kJobs:
      return true;
    default:
      return (fault == Fault::kLeak && rule.purpose == Rule::Purpose::kNoLeaks) ||
             (fault == Fault::kMaps && rule.purpose == Rule::Purpose::kMaps) ||
             (fault == Fault::kStuck && rule.purpose == Rule::Purpose::kProgress);
  }
}

void test_rule(const Rule& rule) {
  set_log_level(LogLevel::kOff);
#ifndef ELASTRIPE_MUTANTS
  const uint64_t share = kSeedsWithRules * seeds_to_run() / kSeedsInContinuousIntegration;
  const Campaign right = run_seeds(rule.scenario, 1, std::max<uint64_t>(share, 1), 1);
  describe(rule, right);
  REQUIRE(right.failures.empty());
#else
  set_mutant(rule.mutant);
  const Campaign wrong = run_seeds(rule.scenario, 1, kMostSeedsToCatch, 1,
                                   [&](Fault fault) { return is_harm(rule, fault); });
  set_mutant(Mutant::kNone);
  INFO(rule.mutant_name << " was not caught within " << kMostSeedsToCatch << " schedules");
  REQUIRE_FALSE(wrong.failures.empty());
  std::cout << rule.mutant_name << ": caught by seed " << wrong.failures.front().seed << ": "
            << name(wrong.failures.front().fault) << ": " << wrong.failures.front().what << "\n";
#endif
}

class RuleTest final : public Catch::ITestInvoker {
 public:
  explicit RuleTest(const Rule& rule) : rule_(rule) {}
  void invoke() const override { test_rule(rule_); }

 private:
  const Rule& rule_;
};

// Catch2 has no public way to register tests from a table. In two halves: each has a processor.
const bool kRegistered = [] {
  bool is_odd = false;
  for (const Rule& rule : rules()) {
    Catch::AutoReg(
        new RuleTest(rule), CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
        Catch::NameAndTags{std::string(rule.sentence), is_odd ? "[rules][odd]" : "[rules][even]"});
    is_odd = !is_odd;
  }
  return true;
}();

TEST_CASE("every mutant has a rule and a scenario", "[rules][even]") {
  REQUIRE(kRegistered);
  REQUIRE(rules().size() == static_cast<size_t>(Mutant::kRefuseMaybeDone));
  for (size_t i = 0; i < rules().size(); ++i) {
    for (size_t j = 0; j < i; ++j) CHECK(rules()[i].mutant != rules()[j].mutant);
  }
}

}  // namespace
}  // namespace elastripe::sim
