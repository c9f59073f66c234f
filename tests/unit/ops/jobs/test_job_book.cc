// What a proxy knows of jobs: of its own, of those that others tell of, and of those that are left.
#include <catch2/catch.hpp>

#include "proxy/ops/jobs/job_book.h"

using namespace elastripe;
using namespace elastripe::jobs;

namespace {

ClusterJob told(uint64_t id, uint32_t term, uint32_t version, JobState state = JobState::kRunning) {
  return {.id = id,
          .token = id,
          .kind = "transition",
          .order = "{}",
          .term = term,
          .version = version,
          .runs = 1,
          .state = state,
          .report = std::to_string(term) + "/" + std::to_string(version)};
}

JobProgress ended(JobState state) {
  JobProgress progress;
  progress.state = state;
  return progress;
}

}  // namespace

TEST_CASE("jobs get ids in their order, and run one at a time", "[jobs]") {
  JobBook book;
  const auto first = book.begin(3, 101, "transition", "{}");
  REQUIRE(first);
  CHECK(first->id == 1);
  CHECK(first->runs == 1);
  const auto second = book.begin(3, 102, "repair", "{}");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::kConflict);
  CHECK(second.error().message == "transition 1 is running: one at a time");
  book.tell(1, 3, ended(JobState::kDone), "done");
  CHECK(book.begin(3, 103, "repair", "{}")->id == 2);
  book.forget(2);
  CHECK(book.begin(3, 104, "repair", "{}")->id == 3);  // whoever was told of 2 finds no other one
}

TEST_CASE("who asks twice for the same gets one job, ended or not", "[jobs]") {
  JobBook book;
  REQUIRE(book.begin(3, 77, "transition", "{}")->id == 1);
  CHECK(book.begin(3, 77, "transition", "{}")->id == 1);
  // Another proxy decides meanwhile, and knows of it.
  JobBook next;
  next.note(*book.find(1));
  CHECK(next.begin(4, 77, "transition", "{}")->id == 1);
  next.tell(1, 3, ended(JobState::kDone), "done");
  CHECK(next.begin(4, 77, "transition", "{}")->state == JobState::kDone);
  CHECK(next.begin(4, 78, "transition", "{}")->id == 2);
}

TEST_CASE("the ids of others are not given again", "[jobs]") {
  JobBook book;
  book.note(told(7, 2, 1, JobState::kDone));
  CHECK(book.begin(3, 105, "transition", "{}")->id == 8);
}

TEST_CASE("the last ones are remembered, those that run above all", "[jobs]") {
  JobBook book;
  book.note(told(1, 1, 1));
  for (uint64_t id = 2; id <= 40; ++id) book.note(told(id, 1, 1, JobState::kDone));
  const auto all = book.all();
  REQUIRE(all.size() == JobBook::kRemembered);
  CHECK(all.front().id == 1);
  CHECK(all[1].id == 26);
  CHECK(all.back().id == 40);
  book.tell(1, 1, ended(JobState::kDone), "done");
  book.note(told(41, 1, 1, JobState::kDone));
  CHECK_FALSE(book.note(told(2, 1, 9)));  // left out before: a node may still tell of it
  CHECK(book.all().front().id == 26);
}

TEST_CASE("a later word counts, in whatever order it comes", "[jobs]") {
  JobBook book;
  book.note(told(1, 2, 5));
  book.note(told(1, 2, 4, JobState::kFailed));
  CHECK(book.find(1)->is_running());
  book.note(told(1, 2, 6));
  CHECK(book.find(1)->report == "2/6");
  book.note(told(1, 3, 0));
  CHECK(book.find(1)->report == "3/0");
  book.note(told(1, 2, 99, JobState::kCancelled));  // of the one whose job was taken over
  CHECK(book.find(1)->is_running());
  book.tell(1, 2, ended(JobState::kFailed), "late");  // likewise
  CHECK(book.find(1)->is_running());
  book.tell(1, 3, ended(JobState::kDone), "done");
  CHECK(book.find(1)->state == JobState::kDone);
  book.tell(1, 3, ended(JobState::kFailed), "late");
  CHECK(book.find(1)->report == "done");
  CHECK_FALSE(book.find(2));
}

TEST_CASE("what changes has another version, and what does not has not", "[jobs]") {
  JobBook book;
  const auto job = book.begin(3, 106, "transition", "{}");
  book.tell(1, 3, JobProgress(), "a");
  const uint32_t version = book.find(1)->version;
  CHECK(version > job->version);
  book.tell(1, 3, JobProgress(), "a");
  CHECK(book.find(1)->version == version);
  REQUIRE(book.cancel(1, 3));
  CHECK(book.find(1)->version == version + 1);
  REQUIRE(book.cancel(1, 3));
  CHECK(book.find(1)->version == version + 1);
  book.tell(1, 3, ended(JobState::kCancelled), "a");
  CHECK(book.find(1)->version == version + 2);
  CHECK(book.cancel(1, 3)->state == JobState::kCancelled);
  CHECK(book.cancel(2, 3).error().code == ErrorCode::kNotFound);
}

TEST_CASE("whoever decides next goes on with the job that is left", "[jobs]") {
  JobBook book;
  book.note(told(1, 2, 7, JobState::kDone));
  book.note(told(2, 2, 9));
  const auto left = book.take_over(5);
  REQUIRE(left.goes_on);
  CHECK(left.goes_on->id == 2);
  CHECK(left.goes_on->term == 5);
  CHECK(left.goes_on->runs == 2);
  CHECK(left.ended.empty());
  CHECK(book.begin(5, 107, "repair", "{}").error().code == ErrorCode::kConflict);
  // Once; its own it has already.
  CHECK_FALSE(book.take_over(5).goes_on);
  CHECK(book.take_over(6).goes_on->runs == 3);
}

TEST_CASE("a job that was cancelled is not begun again", "[jobs]") {
  JobBook book;
  book.note(told(1, 2, 7));
  CHECK(book.cancel(1, 1).error().code == ErrorCode::kUnknownOutcome);
  REQUIRE(book.cancel(1, 2));
  book.note(told(1, 2, 12));  // what its proxy said before it heard of that
  const auto left = book.take_over(5);
  CHECK_FALSE(left.goes_on);
  REQUIRE(left.ended.size() == 1);
  book.tell(1, 5, ended(JobState::kCancelled), "cancelled");
  CHECK(book.find(1)->state == JobState::kCancelled);
  CHECK(book.begin(5, 108, "repair", "{}"));
}

TEST_CASE("a job that is left can be cancelled by whoever decides now", "[jobs]") {
  JobBook book;
  book.note(told(1, 2, 7));
  const auto cancelled = book.cancel(1, 3);
  REQUIRE(cancelled);
  CHECK(cancelled->cancelling);
  book.tell(1, 3, ended(JobState::kCancelled), "cancelled");
  CHECK_FALSE(book.note(told(1, 2, 12)));
  CHECK(book.find(1)->state == JobState::kCancelled);
}

TEST_CASE("an older job does not undo what came after it", "[jobs]") {
  JobBook book;
  book.note(told(1, 2, 7));  // the word of its end was lost
  book.note(told(2, 3, 1));
  const auto left = book.take_over(5);
  REQUIRE(left.goes_on);
  CHECK(left.goes_on->id == 2);
  REQUIRE(left.ended.size() == 1);
  CHECK(left.ended[0].id == 1);

  JobBook later;
  later.note(told(3, 2, 7));
  REQUIRE_FALSE(later.begin(5, 109, "transition", "{}"));
  later.note(told(4, 5, 1));  // of this term, begun before the other one was heard of
  const auto rest = later.take_over(5);
  CHECK_FALSE(rest.goes_on);
  REQUIRE(rest.ended.size() == 1);
  CHECK(rest.ended[0].id == 3);
}

TEST_CASE("a job of long ago does not come back to life", "[jobs]") {
  JobBook book;  // of a proxy that was away while it ended, and others ran
  book.note(told(7, 2, 7));
  book.note(told(9, 4, 3, JobState::kDone));
  const auto left = book.take_over(5);
  CHECK_FALSE(left.goes_on);
  REQUIRE(left.ended.size() == 1);
  CHECK(left.ended[0].id == 7);

  JobBook healthy;
  const auto runs = healthy.begin(5, 110, "transition", "{}");
  healthy.note(told(runs->id + 3, 4, 1));  // of an earlier term, and heard late
  CHECK_FALSE(healthy.take_over(5).goes_on);
  CHECK(healthy.find(runs->id)->is_running());
}

TEST_CASE("what runs is not taken for older than what was ended beside it", "[jobs]") {
  JobBook book;
  REQUIRE(book.begin(7, 1, "transition", "{}")->id == 1);
  book.note(told(2, 3, 1));  // late, of an earlier term
  const auto left = book.take_over(7);
  CHECK_FALSE(left.goes_on);
  REQUIRE(left.ended.size() == 1);
  book.tell(2, 7, ended(JobState::kFailed), "another job came after it");
  const auto next = book.take_over(9);
  REQUIRE(next.goes_on);
  CHECK(next.goes_on->id == 1);
  CHECK(next.ended.empty());
}

TEST_CASE("an end that is answered counts for whoever decided in between", "[jobs]") {
  JobBook between;  // decided in term 5, and nobody heard of it
  between.note(told(1, 4, 1));
  REQUIRE(between.take_over(5).goes_on);
  for (const bool asks_again : {false, true}) {
    JobBook book;
    book.note(told(1, 4, 2, JobState::kCancelled));
    const auto answered = asks_again ? book.begin(6, 1, "transition", "{}") : book.cancel(1, 6);
    REQUIRE(answered);
    CHECK(answered->term == 6);
    CHECK(between.note(*answered));
  }
  CHECK(between.find(1)->state == JobState::kCancelled);
}

TEST_CASE("what has ended is not taken for later, as its end was answered later", "[jobs]") {
  JobBook book;
  book.note(told(1, 4, 2, JobState::kDone));
  book.note(told(2, 4, 1));
  REQUIRE(book.cancel(1, 6)->term == 6);
  const auto left = book.take_over(7);
  REQUIRE(left.goes_on);
  CHECK(left.goes_on->id == 2);
}

TEST_CASE("what two have begun for the same asker runs once", "[jobs]") {
  JobBook book;
  REQUIRE(book.begin(5, 77, "transition", "{}")->id == 1);
  ClusterJob late = told(2, 4, 1);
  late.token = 77;
  book.note(late);
  CHECK_FALSE(book.find(2));
  ClusterJob later = told(4, 6, 1);  // of one that knew nothing of ours
  later.token = 77;
  book.note(later);
  CHECK(book.find(4));
  CHECK_FALSE(book.find(1));
}

TEST_CASE("a word that counts less is told from one that counts", "[jobs]") {
  JobBook book;
  CHECK(book.note(told(1, 3, 4)));
  CHECK(book.note(told(1, 3, 4)));
  CHECK_FALSE(book.note(told(1, 3, 3)));
  CHECK_FALSE(book.note(told(1, 2, 9, JobState::kDone)));
  CHECK(book.note(told(1, 3, 5)));
}

TEST_CASE("jobs of another cluster are forgotten", "[jobs]") {
  JobBook book;
  book.belong_to(1);
  book.note(told(7, 40, 1));
  book.belong_to(1);
  CHECK(book.find(7));
  book.belong_to(2);
  CHECK(book.all().empty());
  CHECK(book.begin(1, 111, "transition", "{}")->id == 1);
}
