// A read of a client that may have to make the value anew: mg of the meta protocol.
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/mark.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/objects/touch.h"

namespace elastripe::objects {

namespace {

records::Use use_of(const ReadRequest& request) {
  if (request.is_use) {
    return request.tells_use ? records::Use::kCountsAndTells : records::Use::kCounts;
  }
  return request.tells_use ? records::Use::kTells : records::Use::kNone;
}

class Claiming {
 public:
  Claiming(OpsContext& ops, const ReadRequest& request, ValueSink& sink, TimePoint deadline)
      : ops_(ops), request_(request), sink_(sink), deadline_(deadline) {}

  Task<Result<ReadOutcome>> run() {
    RecordPtr touched;
    if (request_.touch) {
      auto result = co_await commit_touch(ops_, request_.key, *request_.touch, deadline_);
      if (!result) co_return fail(result.error());
      has_touched_ = result->status == records::CommitStatus::kCommitted;
      if (has_touched_ && result->is_exact) touched = result->record;
    }
    for (;;) {
      auto outcome = co_await attempt(std::exchange(touched, nullptr));
      if (!outcome) co_return failed(outcome.error());
      if (*outcome) co_return **outcome;
      ++ops_.counters.commit_conflicts;
      if (ops_.clock.now() >= deadline_) {
        co_return failed({ErrorCode::kTimeout, "too many writers of one key"});
      }
    }
  }

 private:
  // Nothing: others have changed the object meanwhile.
  Task<Result<std::optional<ReadOutcome>>> attempt(RecordPtr touched) {
    ObjectRead read(ops_, request_.key, sink_, request_.range, deadline_, use_of(request_));
    auto opened =
        touched != nullptr ? co_await read.open(std::move(touched)) : co_await read.open();
    if (!opened) co_return fail(opened.error());
    if (!read.is_live()) co_return co_await create();
    if (!wins(read.record()->content)) co_return co_await deliver(read, sink_);
    const node::RecordContent& content = read.record()->content;
    const auto marks = static_cast<uint8_t>(content.marks | node::kWinTaken);
    auto won = co_await commit_mark(ops_, request_.key, read,
                                    {.marks = marks, .exptime = content.exptime}, deadline_);
    if (!won) co_return fail(won.error());
    if (won->status != records::CommitStatus::kCommitted) co_return std::nullopt;
    has_won_ = true;
    co_return co_await deliver(read, sink_, /*is_won=*/true);
  }

  bool wins(const node::RecordContent& content) const {
    if (content.has_mark(node::kWinTaken)) return false;
    return content.has_mark(node::kStale) ||
           (content.exptime != 0 && content.exptime < request_.wins_before);
  }

  // Stands in for the value until that is made.
  Task<Result<std::optional<ReadOutcome>>> create() {
    if (!request_.creates) co_return ReadOutcome{};
    if (auto checked = check_marks(ops_); !checked) co_return fail(checked.error());
    Put made;
    made.exptime = request_.creates->exptime;
    WholeValue empty(Buffer::allocate(0));
    made.value = &empty;
    made.commit.key = request_.key;
    made.commit.condition = node::Condition::kIfAbsent;
    made.commit.content.marks = node::kWinTaken;
    made.commit.content.cas = given_cas(request_.key, request_.creates->cas);
    made.memory = StagingMemory(ops_.memory.rebuilt);
    const auto guard = co_await ops_.locks.lock(request_.key);
    auto result = co_await put(ops_, ops_.pools.pool_of(request_.key), made, deadline_);
    if (!result) co_return fail(result.error());
    if (result->status != records::CommitStatus::kCommitted) co_return std::nullopt;
    co_await count_use();
    sink_.begin({.cas = cas_after(request_.key, *result),
                 .exptime = request_.creates->exptime,
                 .is_won = true});
    co_return ReadOutcome{.found = true};
  }

  // Who makes it has asked for it, too. A use that is not noted is no failure.
  Task<void> count_use() {
    if (!request_.is_use) co_return;
    ObjectRead read(ops_, request_.key, sink_, {0, 0}, deadline_, records::Use::kCounts);
    [[maybe_unused]] const auto opened = co_await read.open();
  }

  // What was done before is done.
  std::unexpected<Error> failed(const Error& error) {
    if (!has_touched_ && !has_won_) return fail(error);
    return unknown_outcome(
        ops_, (has_won_ ? "won, but not read: " : "touched, but not read: ") + error.message);
  }

  OpsContext& ops_;
  const ReadRequest& request_;
  ValueSink& sink_;
  const TimePoint deadline_;
  bool has_touched_ = false;
  bool has_won_ = false;
};

Task<Result<ReadOutcome>> claim_object(OpsContext& ops, ReadRequest request, ValueSink& sink,
                                       TimePoint deadline) {
  Claiming claiming(ops, request, sink, deadline);
  co_return co_await claiming.run();
}

}  // namespace

Task<Result<ReadOutcome>> read_object(OpsContext& ops, const ReadRequest& request, ValueSink& sink,
                                      TimePoint deadline) {
  if (request.may_win) return claim_object(ops, request, sink, deadline);
  if (request.touch) {
    return touch_and_get_object(ops, request.key, *request.touch, sink, request.range, deadline);
  }
  return get_object(ops, request.key, sink, request.range, deadline, use_of(request));
}

}  // namespace elastripe::objects
