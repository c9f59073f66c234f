#include "proxy/ops/jobs/transition.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/reshape.h"
#include "proxy/ops/jobs/transition_window.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

using coding::Direction;
using node::RecordContent;
using node::Segment;

namespace {

// Segments that are staged and committed together: what bounds the memory of both generations.
constexpr size_t kWindowSegments = 4;

// The next window of a record that needs one.
Result<WindowPtr> open_window(OpsContext& ops, const TransitionRequest& request, RecordPtr record,
                              Direction direction) {
  const RecordContent& content = record->content;
  const auto codec = coding::codec_for(content.scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  auto plan = transition_plan_of(**codec, direction, request);
  if (!plan) return fail(ErrorCode::kInvalid, "{}", plan.error());
  auto window = std::make_shared<TransitionWindow>();
  window->key = request.key;
  window->record = record;
  window->execution = request.execution;
  window->codec = *codec;
  window->plan = *plan;
  const Id128 parity_txid = ops.ids.next();
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const Segment& before = content.segments[i];
    if (before.state == coding::state_after(direction)) continue;
    auto geometry = geometry_of(content.scheme, before);
    if (!geometry) return fail(geometry.error());
    Segment after = before;
    after.state = coding::state_after(direction);
    ++after.generation;
    node::name_parity_shards(after, content.scheme,
                             mutant(Mutant::kReuseParityTxid) ? before.data_txid : parity_txid);
    window->segments.push_back({i, before, std::move(after), *geometry, {}, {}, {}});
    if (window->segments.size() == kWindowSegments) break;
  }
  return window;
}

// Bytes of the proxy's memory that the window takes.
uint64_t window_bytes(const TransitionWindow& window) {
  const size_t data_blocks = window.plan->data_blocks.size();
  const size_t sent = blocks_on_wire(*window.plan, window.scheme().m, window.execution).sent;
  uint64_t bytes = 0;
  for (const auto& segment : window.segments) {
    bytes += (data_blocks + sent) * segment.before.block_bytes + old_parity_bytes(window, segment);
  }
  return bytes;
}

// Parity shards of one generation of the window's segments, by node.
std::vector<ShardsOnNode> parities_of(const TransitionWindow& window, bool staged) {
  if (mutant(Mutant::kOverwriteParities)) return {};
  std::vector<Segment> segments;
  for (const auto& segment : window.segments) {
    segments.push_back(staged ? segment.after : segment.before);
    for (size_t i = 0; i < window.scheme().k_prime; ++i) segments.back().placement[i] = kNoNode;
  }
  return shards_by_node(window.scheme(), segments);
}

// Deletes what a transaction staged that definitely did not commit, and never will.
void abandon(OpsContext& ops, const TransitionWindow& window) {
  (void)ops.background.try_spawn(
      delete_shards(ops, parities_of(window, true), ops.clock.now() + ops.settings.node_timeout));
}

Reshape reshape_of(const TransitionWindow& window) {
  Reshape reshape{window.key, window.record, {}};
  for (const auto& segment : window.segments) {
    reshape.segments.emplace_back(segment.index, segment.after);
  }
  return reshape;
}

// One try under one map. Errors are those of prepare and commit; nothing is left behind but for
// kUnknownOutcome.
Task<Result<ReshapeEnd>> try_window(OpsContext& ops, MapPtr map, WindowPtr window,
                                    TimePoint deadline) {
  auto homes = records::check_homes(ops, *map, window->key);
  if (!homes) co_return fail(homes.error());
  auto prepared = co_await prepare_window(ops, map, window, deadline);
  if (!prepared) {
    abandon(ops, *window);
    co_return fail(prepared.error());
  }
  fail_point(FailPoint::kAllStaged);
  Reshape reshape = reshape_of(*window);
  auto end = co_await commit_reshape(ops, map, reshape, deadline);
  window->committed = reshape.committed;
  if (!end) {
    if (end.error().code != ErrorCode::kUnknownOutcome) abandon(ops, *window);
    co_return end;
  }
  if (*end == ReshapeEnd::kCommitted) {
    fail_point(FailPoint::kWindowCommitted);
    delete_after_grace(ops, parities_of(*window, false));
  } else {
    abandon(ops, *window);
  }
  co_return end;
}

// The transition of one object, a window after the other.
class ObjectTransition {
 public:
  ObjectTransition(OpsContext& ops, TransitionRequest request)
      : ops_(ops), request_(std::move(request)) {
    const RecordPtr& known = request_.known;
    if (known != nullptr && tells_of_work(known->content, request_.to)) known_ = known;
  }

  Task<Result<TransitionOutcome>> run() {
    return under_newest_map(
        ops_, fresh_deadline(ops_),
        [this](const MapPtr& map, TimePoint& deadline) { return next_window(map, deadline); });
  }

 private:
  // Nothing: there is more to do.
  using MaybeOutcome = std::optional<TransitionOutcome>;

  // From the known record, once and while it is live, or what the tail has. If that is not the
  // newest, the commit is refused, and the try is in vain.
  Task<Result<MaybeOutcome>> next_window(MapPtr map, TimePoint& deadline) {
    RecordPtr record = std::exchange(known_, nullptr);
    if (record == nullptr || !is_live_now(ops_, *map, *record)) {
      auto tail =
          co_await records::try_read_tail(ops_, map, request_.key, /*if_version=*/0, deadline);
      if (!tail) co_return fail(tail.error());
      record = tail->record;
    }
    if (record == nullptr || !is_live_now(ops_, *map, *record)) {
      co_return ended(ObjectStatus::kNoObject);
    }
    const TransitionNeed need = transition_need(record->content, request_.to);
    outcome_.direction = need.direction;
    outcome_.reason = need.reason;
    outcome_.object_bytes = record->content.size;
    if (need.status != ObjectStatus::kDone) {
      const bool finished = need.status == ObjectStatus::kAlreadyThere && some_done_;
      co_return ended(finished ? ObjectStatus::kDone : need.status);
    }

    auto window = open_window(ops_, request_, record, need.direction);
    if (!window) co_return fail(window.error());
    const TimePoint asked = ops_.clock.now();
    const auto permit = co_await ops_.memory.staged.acquire(window_bytes(**window));
    deadline += ops_.clock.now() - asked;
    const auto end = co_await try_window(ops_, map, *window, deadline);
    outcome_.traffic += (*window)->traffic;
    if (request_.spent != nullptr) *request_.spent += (*window)->traffic;
    if (!end && !(*window)->refusal.empty()) co_return co_await look_again(*window, deadline);
    if (!end) co_return fail(end.error());
    if (*end == ReshapeEnd::kCommitted) {
      some_done_ = true;
      known_ = (*window)->committed;
      deadline = fresh_deadline(ops_);
      co_return MaybeOutcome();
    }
    forget_if_old(record);
    if (*end == ReshapeEnd::kOverwritten && !may_be_old(record)) {
      co_return ended(ObjectStatus::kOverwritten);
    }
    co_return MaybeOutcome();
  }

  // Shards that a record refers to no more may be gone: only the newest tells (rule 8).
  Task<Result<MaybeOutcome>> look_again(WindowPtr window, TimePoint deadline) {
    const auto now = co_await records::read_tail(ops_, request_.key, deadline);
    if (!now) co_return fail(now.error());
    if (now->record == nullptr || !has_same_shards(reshape_of(*window), now->record->content)) {
      forget_if_old(window->record);
      co_return MaybeOutcome();
    }
    outcome_.reason = window->refusal;
    co_return ended(ObjectStatus::kRefused);
  }

  MaybeOutcome ended(ObjectStatus status) {
    outcome_.status = status;
    return outcome_;
  }
  bool may_be_old(const RecordPtr& record) const {
    return request_.known_may_be_old && record == request_.known;
  }
  void forget_if_old(const RecordPtr& record) {
    if (may_be_old(record)) ops_.cache.erase(request_.key);
  }

  OpsContext& ops_;
  const TransitionRequest request_;
  TransitionOutcome outcome_;
  RecordPtr known_;  // what the next window starts from, if anything
  bool some_done_ = false;
};

}  // namespace

Task<Result<TransitionOutcome>> transition_object(OpsContext& ops, TransitionRequest request) {
  ObjectTransition transition(ops, std::move(request));
  co_return co_await transition.run();
}

}  // namespace elastripe::jobs
