#include "proxy/ops/objects/read_segment.h"

#include <algorithm>

#include "coding/coder.h"
#include "proxy/async/scope.h"
#include "proxy/async/signal.h"
#include "proxy/base/crc32c.h"
#include "proxy/base/memory_pool.h"
#include "proxy/ops/attempt.h"

namespace elastripe::objects {

namespace {

using coding::ShardSet;

// One segment being read: in the frame of its reader, which ends after all calls.
struct SegmentRead {
  SegmentRead(OpsContext& by, MapPtr under, coding::Scheme stored, const node::Segment& what,
              const coding::SegmentGeometry& layout, ByteRange wanted, Buffer into, TimePoint until)
      : ops(by),
        map(std::move(under)),
        scheme(stored),
        segment(what),
        geometry(layout),
        range(wanted),
        data(std::move(into)),
        deadline(until),
        parities(scheme.m),
        stops(shards()) {}

  OpsContext& ops;
  const MapPtr map;
  const coding::Scheme scheme;
  const node::Segment& segment;
  const coding::SegmentGeometry geometry;
  const ByteRange range;  // of the segment; `data` is its bytes
  Buffer data;
  TimePoint deadline;
  std::vector<Buffer> parities;  // by parity; empty until asked for
  ShardSet asked;
  ShardSet have;
  ShardSet missing;      // erasures, for good or for now
  ShardSet silent;       // of these: their nodes are silent or down
  ShardSet passed_over;  // parities are read for them, whether they come or not
  bool is_stale = false;
  bool may_hedge = true;
  bool is_patient = false;  // no hedge for speed alone
  bool is_decoded = false;

  std::vector<CallStop> stops;  // by shard
  Scope calls;
  // Something has come, or it is time to look; of timers too, which may outlive the read.
  std::shared_ptr<Signal> changed = std::allocate_shared<Signal>(Pooled<Signal>());
  TimePoint asked_at;  // the last time that some were
  TimePoint came_at;   // the last shard
  TimePoint timer_at;  // of the timer that was started last

  size_t shards() const { return static_cast<size_t>(scheme.shards()); }
  bool is_whole() const { return range.length == segment.length; }
  const ShardSet& data_shards() const { return geometry.codec().data_shards(); }
  bool has_all_data() const { return (data_shards() & ~have).none(); }
  ShardSet under_way() const { return asked & ~have & ~missing; }
  ShardSet absent() const { return missing | passed_over; }
  void stop_calls() {
    for (size_t i = 0; i < shards(); ++i) {
      if (under_way()[i]) stops[i].stop();
    }
  }
};

// Which bytes of a shard are read, and where to.
struct ShardTarget {
  ShardRange range;
  std::vector<MutableByteView> into;
  std::vector<Buffer> keep;
};

// The bytes of data shard `index` between the first and the last that the range has, those between
// that it has not (and padding) to a place where they are forgotten. Nothing to read: an empty
// `into`.
ShardTarget data_target(SegmentRead& read, size_t index) {
  ShardTarget target;
  const size_t range_end = read.range.offset + read.range.length;
  size_t shard_offset = 0;
  size_t skipped = 0;  // since the last piece
  const auto skip_to = [&](size_t bytes) {
    if (bytes == 0) return;
    target.keep.push_back(Buffer::allocate(bytes));
    target.into.push_back(target.keep.back().mutable_bytes());
  };
  target.keep.push_back(read.data);
  for (const auto& extent : read.geometry.shard_extents(static_cast<int>(index))) {
    const size_t begin = std::max<size_t>(extent.offset, read.range.offset);
    const size_t end = std::min<size_t>(extent.offset + extent.bytes, range_end);
    if (begin < end) {
      skipped += begin - extent.offset;
      if (target.into.empty() && !read.is_whole()) {
        target.range.offset = static_cast<uint32_t>(shard_offset + begin - extent.offset);
      } else {
        skip_to(skipped);
      }
      target.into.push_back(
          read.data.mutable_bytes().subspan(begin - read.range.offset, end - begin));
      skipped = extent.offset + extent.bytes - end;
    } else {
      skipped += extent.bytes;
    }
    skipped += extent.zeros;
    shard_offset += extent.bytes + extent.zeros;
  }
  // A whole shard is asked for as such: its padding must be there too.
  if (read.is_whole()) skip_to(skipped);
  for (const auto& part : target.into) target.range.length += static_cast<uint32_t>(part.size());
  return target;
}

ShardTarget parity_target(SegmentRead& read, size_t index) {
  Buffer& parity = read.parities[index - read.scheme.k_prime];
  parity = Buffer::allocate(read.geometry.parity_shard_bytes(read.segment.state));
  return {{}, {parity.mutable_bytes()}, {parity}};
}

// `read` lives until this has ended.
Task<void> read_one(SegmentRead& read, size_t shard) {
  ShardTarget target =
      shard < read.scheme.k_prime ? data_target(read, shard) : parity_target(read, shard);
  auto outcome = ShardRead::kRead;  // if it has no byte of the range
  if (!target.into.empty()) {
    const NodeId node = read.segment.placement[shard];
    const TimePoint asked = read.ops.clock.turn_time();
    outcome =
        co_await read_shard(read.ops, read.map, node, shard_name(read.segment, read.scheme, shard),
                            std::move(target.into), std::move(target.keep), read.deadline,
                            read.is_whole() ? ShardRange{} : target.range, &read.stops[shard]);
    const Duration took = read.ops.clock.turn_time() - asked;
    if (outcome == ShardRead::kRead) {
      read.ops.hedging.note_shard(node, took);
    } else if (read.passed_over[shard]) {
      read.ops.hedging.note_late_shard(node, took);
    }
  }
  if (outcome == ShardRead::kRead) {
    read.have.set(shard);
    read.came_at = read.ops.clock.turn_time();
  } else {
    read.missing.set(shard);
    read.silent[shard] = outcome == ShardRead::kUnreachable;
    read.is_stale |= outcome == ShardRead::kStaleEpoch;
  }
  read.changed->set();
}

Task<void> wake_at(Clock& clock, TimePoint when, std::shared_ptr<Signal> signal) {
  if (co_await clock.sleep_until(when)) signal->set();
}

// When what is under way is late if it usually comes within `usual`: not while all are slow, and
// early enough to ask others instead.
TimePoint late_at(const SegmentRead& read, Duration usual) {
  constexpr int kTimesOthers = 3;
  const Duration others = std::max(read.came_at - read.asked_at, Duration::zero());
  const TimePoint late = read.asked_at + std::max(usual, kTimesOthers * others);
  return std::min(late, read.asked_at + (read.deadline - read.asked_at) / 2);
}

// What decoding takes, about: the other shards of the segment are sent and computed with.
Duration time_to_decode(const node::Segment& segment) {
  constexpr int64_t kPerByte_ns = 4;
  return std::chrono::nanoseconds(segment.length * kPerByte_ns);
}

// What all shards under way usually come within, as far as that is known. For a part of a segment,
// all of it would be decoded: what comes before that is done is not late.
Duration usual(const SegmentRead& read) {
  const Duration most = read.ops.settings.hedge_after;
  if (read.is_patient || !read.ops.settings.hedge_early) return most;
  Duration longest{};
  const ShardSet under_way = read.under_way();
  for (size_t i = 0; i < read.shards(); ++i) {
    if (!under_way[i]) continue;
    const NodeId node = read.segment.placement[i];
    longest = std::max(longest, read.ops.hedging.usual(node).value_or(most));
  }
  if (!read.is_whole()) longest = std::max(longest, time_to_decode(read.segment));
  return std::min(longest, most);
}

TimePoint late_at(const SegmentRead& read) { return late_at(read, usual(read)); }

// What is early costs other nodes more than it must: it is bounded, but around nodes of which it is
// known that most are faster.
bool may_pass_over(SegmentRead& read) {
  if (read.ops.clock.now() >= late_at(read, read.ops.settings.hedge_after)) return true;
  const ShardSet under_way = read.under_way();
  bool all_slow = true;
  for (size_t i = 0; i < read.shards(); ++i) {
    all_slow &= !under_way[i] || read.ops.hedging.is_slow(read.segment.placement[i]);
  }
  return all_slow || read.ops.hedging.take_hedge();
}

// Others are to make up for what is under way, if it is late.
void look_for_late(SegmentRead& read) {
  if (read.ops.clock.now() < late_at(read)) return;
  if (may_pass_over(read)) {
    read.passed_over |= read.under_way();
    ++read.ops.counters.hedges;
  } else {
    read.is_patient = true;
    ++read.ops.counters.hedges_withheld;
  }
}

// Those of `wanted` that were not asked for yet.
void ask_for(SegmentRead& read, ShardSet wanted) {
  wanted &= ~read.asked & ~read.missing;
  if (wanted.none()) return;
  read.asked |= wanted;
  read.asked_at = read.ops.clock.turn_time();
  for (size_t i = 0; i < read.shards(); ++i) {
    if (wanted[i]) read.calls.spawn(read_one(read, i));
  }
}

constexpr Duration kWorthATimer = std::chrono::milliseconds(1);

// Many reads wait at a time: timers that end together wake the thread once.
TimePoint together(TimePoint when) { return std::chrono::ceil<std::chrono::milliseconds>(when); }

// Waits for a shard, or until those that are late can be passed over: if so few are missing then
// that others make up for them.
Task<void> wait_for_shards(SegmentRead& read) {
  const auto can_hedge = [&] {
    const ShardSet without = read.absent() | read.under_way();
    return read.may_hedge && without != read.absent() &&
           without.count() <= static_cast<size_t>(read.scheme.m);
  };
  if (can_hedge()) {
    const TimePoint now = read.ops.clock.now();
    const TimePoint late = together(std::max(late_at(read), now));
    if (read.timer_at <= now || late + kWorthATimer < read.timer_at) {
      read.timer_at = late;
      (void)read.ops.background.try_spawn(wake_at(read.ops.clock, late, read.changed));
    }
  }
  co_await read.changed->wait();
  if (can_hedge()) look_for_late(read);
}

Error undecodable(const SegmentRead& read) {
  const size_t gone = (read.missing & ~read.silent).count();
  if (read.silent.none()) {
    return {ErrorCode::kNotFound, fmt::format("segment {}: {} of {} shards are missing",
                                              read.segment.number, gone, read.shards())};
  }
  const std::string also = gone == 0 ? "" : fmt::format(", and {} are missing", gone);
  return {ErrorCode::kUnavailable,
          fmt::format("segment {}: {} of {} shards are on nodes that do not answer{}",
                      read.segment.number, read.silent.count(), read.shards(), also)};
}

// Shards of nodes that the map says are down, before any is asked for: what makes up for them is
// then read in the same round as the others.
void note_down_nodes(SegmentRead& read) {
  for (size_t i = 0; i < read.scheme.k_prime; ++i) {
    const auto outcome = read_without_asking(*read.map, read.segment.placement[i]);
    if (!outcome) continue;
    read.missing.set(i);
    read.silent[i] = *outcome == ShardRead::kUnreachable;
  }
}

// Waits for the data shards that have bytes of the range: until all are here, or some are absent.
Task<void> read_data(SegmentRead& read) {
  if (read.absent().none()) ask_for(read, read.data_shards());
  while (!read.has_all_data() && read.absent().none()) co_await wait_for_shards(read);
}

Task<Semaphore::Permit> decode_memory(SegmentRead& read, uint64_t bytes, Duration* waited) {
  const TimePoint asked = read.ops.clock.now();
  auto permit = co_await read.ops.memory.decoded.acquire(bytes);
  *waited += read.ops.clock.now() - asked;
  read.deadline += read.ops.clock.now() - asked;
  co_return permit;
}

Task<Result<void>> decode(SegmentRead& read, const coding::DecodePlan& plan) {
  std::vector<ByteView> parities;
  parities.reserve(read.parities.size());
  for (const auto& parity : read.parities) parities.push_back(parity.bytes());
  auto coder = coding::Coder::decoder(read.geometry, plan, read.data.mutable_bytes(), parities);
  if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
  while (coder->step(coding::kStepBytes)) {
    if (!co_await read.ops.clock.next_turn()) {
      co_return fail(ErrorCode::kCancelled, "shutting down");
    }
  }
  co_return Result<void>{};
}

// Degraded read of a whole segment: fetches what makes up for the absent shards, and what was not
// read yet, until all data shards are here or enough to compute the others. Nothing is written to
// its buffers afterwards.
Task<Result<void>> decode_absent(SegmentRead& read) {
  for (;;) {
    if (read.is_stale) co_return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
    if (read.has_all_data()) co_return Result<void>{};
    read.passed_over &= ~read.have & ~read.missing;
    const ShardSet absent = read.absent();
    const auto plan = coding::decode_plan(read.geometry.codec(), read.segment.state, absent,
                                          absent & read.data_shards());
    if (!plan && read.passed_over.none()) co_return fail(undecodable(read));
    if (!plan) {  // then they have to be waited for
      read.passed_over.reset();
      read.may_hedge = false;
      ask_for(read, read.data_shards());
    } else {
      const ShardSet needed = plan->read | (read.data_shards() & ~absent);
      if ((needed & ~read.have).none()) {
        read.stop_calls();
        read.is_decoded = true;
        co_return co_await decode(read, *plan);
      }
      ask_for(read, needed);
    }
    co_await wait_for_shards(read);
  }
}

Result<void> verify(const SegmentRead& read) {
  if (read.segment.crc32c == 0 || crc32c(read.data.bytes()) == read.segment.crc32c) return {};
  return fail(ErrorCode::kLost, "segment {} does not match its checksum", read.segment.number);
}

uint64_t parity_bytes(const SegmentRead& read) {
  return uint64_t{read.scheme.m} * read.geometry.parity_shard_bytes(read.segment.state);
}

// A part of a segment some of whose shards are absent: decoding takes all of what was coded
// together.
Task<Result<void>> decode_range(SegmentRead& part, Duration* waited) {
  const size_t length = part.segment.length;
  const auto memory = co_await decode_memory(part, length + parity_bytes(part), waited);
  if (part.has_all_data()) co_return Result<void>{};  // what was late has come
  SegmentRead whole(part.ops, part.map, part.scheme, part.segment, part.geometry, {0, length},
                    Buffer::allocate(length), part.deadline);
  whole.missing = part.missing;
  whole.silent = part.silent;
  whole.passed_over = part.passed_over & ~part.have;
  whole.is_patient = part.is_patient;
  part.stop_calls();
  note_down_nodes(whole);
  auto decoded = co_await decode_absent(whole);
  whole.stop_calls();
  co_await whole.calls.join();
  if (decoded) decoded = verify(whole);
  if (!decoded) co_return decoded;
  part.is_decoded = true;
  std::ranges::copy(whole.data.bytes().subspan(part.range.offset, part.range.length),
                    part.data.mutable_data());
  co_return decoded;
}

}  // namespace

Task<Result<SegmentBytes>> read_segment(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                        SegmentPtr segment, ByteRange range, MemoryHold hold,
                                        TimePoint deadline, Duration* waited) {
  Duration of_memory{};
  if (waited == nullptr) waited = &of_memory;
  auto geometry = geometry_of(scheme, *segment);
  if (!geometry) co_return fail(geometry.error());
  SegmentRead read(ops, std::move(map), scheme, *segment, *geometry, range,
                   Buffer::allocate(range.length, std::move(hold)), deadline);
  if (read.is_whole()) note_down_nodes(read);
  // It may change in place, and its parities later than its data: what they make up for is not
  // sure.
  if (segment->crc32c == 0) read.may_hedge = false;
  ops.hedging.note_read();
  co_await read_data(read);
  Result<void> done;
  if (read.is_stale) {
    done = fail(ErrorCode::kStaleEpoch, "the cluster map changed");
  } else if (!read.has_all_data() && !read.is_whole()) {
    done = co_await decode_range(read, waited);
  } else if (!read.has_all_data()) {
    const auto memory = co_await decode_memory(read, parity_bytes(read), waited);
    done = co_await decode_absent(read);
    read.stop_calls();
    read.parities.clear();
  }
  read.stop_calls();
  co_await read.calls.join();
  if (done && read.is_whole()) done = verify(read);
  if (!done) co_return fail(done.error());
  co_return SegmentBytes{std::move(read.data), read.is_decoded};
}

}  // namespace elastripe::objects
