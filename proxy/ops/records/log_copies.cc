#include "proxy/ops/records/log_copies.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/sync.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::LogStoreRequest;
using node::Status;
using node::UpdateName;

namespace {

// How long what is settled waits for more of its tail.
constexpr Duration kSettleAfter = std::chrono::milliseconds(2);
// Before what a copy lacks is fetched for it.
constexpr int kAsksByName = 4;
// In one frame. What does not fit who needs to know finds out.
constexpr size_t kMaxToldNumbers = 1 << 16;
// Between two tries at a copy that has no memory.
constexpr Duration kRoomPause = std::chrono::milliseconds(10);

// All that hold the log beside the tail. The head is always one of them: it checks changes that are
// made of the value.
std::vector<NodeId> copies_of(const OpsContext& ops, const node::ClusterMap& map,
                              std::string_view key) {
  const Chain chain = chain_of(map, key);
  if (chain.nodes.size() < 2) return {};
  if (ops.pools.pool_of(key).log_copies == LogCopies::kTwo) return {chain.head()};
  return {chain.nodes.begin() + 1, chain.nodes.end()};
}

// What is to be at a copy. Shared by the flows of the copies.
struct Wanted {
  std::string key;
  uint64_t value = 0;
  uint64_t settled_to = 0;
  std::vector<NumberedUpdate> updates;
  std::vector<UpdateName> unsettled;
};
using WantedPtr = std::shared_ptr<const Wanted>;

// Views the key of `wanted`.
LogStoreRequest store_message(const node::ClusterMap& map, const Wanted& wanted,
                              const std::vector<NumberedUpdate>& updates,
                              const std::vector<UpdateName>& unsettled) {
  LogStoreRequest message;
  message.m = map.max_parities;
  message.value = wanted.value;
  message.settled_to = wanted.settled_to;
  message.key = wanted.key;
  message.unsettled = unsettled;
  message.entries.reserve(updates.size());
  for (const NumberedUpdate& update : updates) {
    message.entries.push_back(
        {update.name, update.offset, static_cast<uint32_t>(update.bytes.size()), update.crc32c});
  }
  return message;
}

Question<LogStoreRequest> store_question(const node::ClusterMap& map, const Wanted& wanted,
                                         const std::vector<NumberedUpdate>& updates,
                                         const std::vector<UpdateName>& unsettled) {
  auto store = question(store_message(map, wanted, updates, unsettled));
  std::vector<Buffer> pieces;
  pieces.reserve(updates.size());
  for (const NumberedUpdate& update : updates) pieces.push_back(update.bytes);
  store.payload(pieces);
  return store;
}

NumberedUpdate copy_of(const node::LogExtent& extent) {
  return {{extent.id, extent.lsn}, extent.offset, Buffer::copy_of(extent.bytes), extent.crc32c};
}

// Those of the missing ones that the tail still has as not settled: the others all copies have by
// now. Nothing: it has another value, and so have all copies.
Task<Result<std::optional<std::vector<NumberedUpdate>>>> fetch_missing(
    OpsContext& ops, MapPtr map, WantedPtr wanted, std::vector<node::Id128> missing,
    TimePoint deadline) {
  const NodeId tail = chain_of(*map, wanted->key).tail();
  auto reply = co_await read_record(ops.nodes, map, tail, node::Role::kTail, wanted->key,
                                    /*if_version=*/0, call_deadline(ops, deadline),
                                    {node::LogWanted::kUnsettled});
  if (!reply && reply.error().code == ErrorCode::kInvalid) {  // a node that does not know that
    reply = co_await read_record(ops.nodes, map, tail, node::Role::kTail, wanted->key,
                                 /*if_version=*/0, call_deadline(ops, deadline),
                                 {node::LogWanted::kImage});
  }
  if (!reply) co_return fail(reply.error());
  if (reply->status != Status::kOk && reply->status != Status::kNotFound) {
    co_return fail(ErrorCode::kUnavailable, "the tail can not tell what is in the update log");
  }
  std::vector<NumberedUpdate> updates;
  const bool is_same_value =
      reply->record != nullptr && reply->record->meta.value_version == wanted->value;
  if (!is_same_value) co_return std::nullopt;
  if (reply->log == nullptr) co_return updates;
  for (const node::LogExtent& extent : reply->log->image.unsettled) {
    if (std::ranges::find(missing, extent.id) != missing.end()) {
      updates.push_back(copy_of(extent));
    }
  }
  co_return updates;
}

// Ascending by LSN, as a copy takes them.
std::vector<NumberedUpdate> merged(const std::vector<NumberedUpdate>& a,
                                   std::vector<NumberedUpdate> b) {
  b.insert(b.end(), a.begin(), a.end());
  std::ranges::sort(b, {}, [](const NumberedUpdate& update) { return update.name.lsn; });
  const auto same =
      std::ranges::unique(b, {}, [](const NumberedUpdate& update) { return update.name.lsn; });
  b.erase(same.begin(), same.end());
  return b;
}

Task<Result<StoredCopies>> store_at(OpsContext& ops, MapPtr map, NodeId copy, WantedPtr wanted,
                                    TimePoint deadline) {
  std::vector<NumberedUpdate> updates = wanted->updates;
  std::vector<UpdateName> unsettled = wanted->unsettled;
  int asked_by_name = 0;
  for (;;) {
    const auto answer =
        co_await ask(ops.nodes, *map, copy, store_question(*map, *wanted, updates, unsettled),
                     call_deadline(ops, deadline));
    if (!answer) co_return fail(answer.error());
    if (answer->status() == Status::kOtherValue) {
      StoredCopies stored;
      const auto record = new_record();
      if (!answer->payload().empty()) {
        auto decoded = node::decode_record(answer->payload(), *record);
        if (!decoded) co_return fail(malformed(*map, copy, decoded.error()));
      }
      stored.other = record;  // without a version: the head has none
      co_return stored;
    }
    if (answer->status() == Status::kForgotten) {
      co_return fail(ErrorCode::kUnknownOutcome, "the object was overwritten meanwhile");
    }
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "a copy of the update log did not take it in time");
    }
    if (answer->status() == Status::kNotSynced) {
      auto synced = co_await sync_key(ops, map, wanted->key, deadline);
      if (!synced) co_return fail(synced.error());
      continue;
    }
    if (answer->status() == Status::kNoSpace) {
      co_await ops.clock.sleep_for(kRoomPause);
      continue;
    }
    if (answer->args.missing.empty() || mutant(Mutant::kSettleOwnOnly)) {
      fail_point(FailPoint::kUpdateCopied);
      co_return StoredCopies{};
    }
    // Mostly it is on its way there, from another connection, and the copy keeps what it got early.
    if (asked_by_name++ < kAsksByName) {
      if (!co_await ops.clock.next_turn()) {
        co_return fail(ErrorCode::kCancelled, "shutting down");
      }
      for (const NumberedUpdate& update : std::exchange(updates, {})) {
        unsettled.push_back(update.name);
      }
      std::ranges::sort(unsettled, {}, &UpdateName::lsn);
      continue;
    }
    auto fetched = co_await fetch_missing(ops, map, wanted, answer->args.missing, deadline);
    if (!fetched) co_return fail(fetched.error());
    if (!*fetched) continue;  // the head tells what counts
    // What the tail has not got as such any more all copies have had, and this one may have
    // forgotten.
    std::erase_if(unsettled, [&](const UpdateName& name) {
      const auto is_name = [&](const NumberedUpdate& update) { return update.name == name; };
      return std::ranges::find(answer->args.missing, name.id) != answer->args.missing.end() &&
             std::ranges::none_of(**fetched, is_name);
    });
    updates = merged(wanted->updates, std::move(**fetched));
    if (updates.empty() && unsettled.empty()) co_return StoredCopies{};
  }
}

}  // namespace

bool may_have_log(const node::ClusterMap& map) {
  return map.capabilities.has(node::Capability::kUpdateLogs);
}

bool takes_updates(const OpsContext& ops, const node::ClusterMap& map, std::string_view key) {
  return may_have_log(map) && ops.pools.pool_of(key).updates == UpdateMethod::kHome;
}

Task<Result<StoredCopies>> store_at_copies(OpsContext& ops, MapPtr map, std::string key,
                                           uint64_t value, uint64_t settled_to,
                                           std::vector<NumberedUpdate> updates,
                                           std::vector<UpdateName> unsettled, TimePoint deadline) {
  const std::vector<NodeId> copies = copies_of(ops, *map, key);
  const auto wanted = std::make_shared<const Wanted>(
      Wanted{std::move(key), value, settled_to, std::move(updates), std::move(unsettled)});
  std::vector<Task<Result<StoredCopies>>> stores;
  stores.reserve(copies.size());
  for (const NodeId copy : copies) {
    stores.push_back(store_at(ops, map, copy, wanted, deadline));
  }
  StoredCopies result;
  for (auto& stored : co_await when_all(std::move(stores))) {
    if (!stored) co_return fail(stored.error());
    if (stored->other != nullptr) result.other = std::move(stored->other);
  }
  co_return result;
}

namespace {

// Adds up what they answer.
Task<SentAhead> send_ahead_to(OpsContext& ops, MapPtr map, NodeId copy, WantedPtr wanted,
                              uint64_t known, TimePoint deadline) {
  LogStoreRequest message = store_message(*map, *wanted, wanted->updates, wanted->unsettled);
  message.known = known;
  auto store = question(message);
  store.payload(std::array{wanted->updates.front().bytes});
  const auto answer =
      co_await ask(ops.nodes, *map, copy, std::move(store), call_deadline(ops, deadline));
  SentAhead sent;
  if (!answer) {
    sent.is_taken = false;
    sent.may_be_there = may_be_done(answer.error());
    sent.has_numbers = false;
    co_return sent;
  }
  const std::vector<node::Id128>& missing = answer->args.missing;
  const auto lacks = [&](const UpdateName& name) {
    return std::ranges::find(missing, name.id) != missing.end();
  };
  sent.is_taken = answer->status() == Status::kOk && !lacks(wanted->updates.front().name);
  // What it has no room for it may take from a frame that comes twice.
  sent.may_be_there = true;
  sent.ahead = answer->args.ahead;
  sent.has_numbers =
      answer->status() == Status::kOk && std::ranges::none_of(wanted->unsettled, lacks);
  if (sent.is_taken) fail_point(FailPoint::kUpdateCopied);
  co_return sent;
}

// The held updates of the key, if they are of this value and map.
std::vector<UpdateName> take_held(OpsContext& ops, const MapPtr& map, const std::string& key,
                                  uint64_t value) {
  const auto found = ops.storing.held.find(key);
  if (found == ops.storing.held.end()) return {};
  Storing::Held held = std::move(found->second);
  ops.storing.held.erase(found);
  if (held.map != map || held.value != value) return {};
  return std::move(held.numbers);
}

std::vector<UpdateName> joined(const std::vector<UpdateName>& a, const std::vector<UpdateName>& b) {
  std::vector<UpdateName> all;
  all.reserve(a.size() + b.size());
  std::ranges::set_union(a, b, std::back_inserter(all), {}, &UpdateName::lsn, &UpdateName::lsn);
  return all;
}

}  // namespace

Task<SentAhead> send_ahead(OpsContext& ops, MapPtr map, std::string key, uint64_t value,
                           NumberedUpdate update, uint64_t known, TimePoint deadline) {
  const std::vector<NodeId> copies = copies_of(ops, *map, key);
  std::vector<UpdateName> numbers = take_held(ops, map, key, value);
  const auto wanted = std::make_shared<const Wanted>(
      Wanted{key, value, /*settled_to=*/0, {std::move(update)}, numbers});
  std::vector<Task<SentAhead>> sends;
  sends.reserve(copies.size());
  for (const NodeId copy : copies) {
    sends.push_back(send_ahead_to(ops, map, copy, wanted, known, deadline));
  }
  SentAhead all;
  for (const SentAhead& sent : co_await when_all(std::move(sends))) {
    all.is_taken &= sent.is_taken;
    all.may_be_there |= sent.may_be_there;
    all.has_numbers &= sent.has_numbers;
    all.ahead.insert(all.ahead.end(), sent.ahead.begin(), sent.ahead.end());
  }
  if (!numbers.empty()) {
    const uint64_t last = numbers.back().lsn;
    if (all.has_numbers) {
      note_settled(ops, map, key, value, last);
    } else {
      hold(ops, map, key, value, std::move(numbers));
    }
  }
  co_return all;
}

namespace {

struct ToldNumbers {
  std::string key;
  Storing::Held held;
  bool is_lacking = false;  // some copy lacks one of them, or its answer is missing
};

Task<bool> tell_numbers_to(OpsContext& ops, MapPtr map, NodeId copy, std::vector<ToldNumbers>& told,
                           std::vector<size_t> places) {
  node::LogSettleRequest message;
  message.entries.reserve(places.size());
  for (const size_t place : places) {
    const ToldNumbers& one = told[place];
    message.entries.push_back({one.key, one.held.value, /*settled_to=*/0, one.held.numbers});
  }
  const auto answer =
      co_await ask(ops.nodes, *map, copy, message, ops.clock.now() + ops.settings.node_timeout);
  for (size_t i = 0; i < places.size(); ++i) {
    const bool lacks =
        !answer || std::ranges::find(answer->args.lacking, i) != answer->args.lacking.end();
    told[places[i]].is_lacking |= lacks;
  }
  if (answer) fail_point(FailPoint::kNumbersTold);
  co_return answer.has_value();
}

// Tells the copies the numbers of what is held, each node of all keys at once.
Task<void> tell_numbers(OpsContext& ops) {
  (void)co_await ops.clock.sleep_for(kSettleAfter);
  ops.storing.is_due = false;
  const MapPtr map = ops.map.current();
  std::vector<ToldNumbers> told;
  size_t names = 0;
  for (auto& [key, held] : std::exchange(ops.storing.held, {})) {
    names += held.numbers.size();
    const bool is_of_now = map != nullptr && held.map == map;
    const bool fits = told.size() < node::kMaxListEntries && names <= kMaxToldNumbers;
    if (is_of_now && fits) told.push_back({key, std::move(held)});
  }
  std::map<NodeId, std::vector<size_t>> places;
  for (size_t i = 0; i < told.size(); ++i) {
    for (const NodeId copy : copies_of(ops, *map, told[i].key)) places[copy].push_back(i);
  }
  std::vector<Task<bool>> tells;
  tells.reserve(places.size());
  for (auto& [copy, of_copy] : places) {
    tells.push_back(tell_numbers_to(ops, map, copy, told, of_copy));
  }
  (void)co_await when_all(std::move(tells));
  for (const ToldNumbers& one : told) {
    if (one.is_lacking) continue;  // who needs to know finds out
    note_settled(ops, map, one.key, one.held.value, one.held.numbers.back().lsn);
  }
}

}  // namespace

void hold(OpsContext& ops, const MapPtr& map, const std::string& key, uint64_t value,
          std::vector<UpdateName> numbers) {
  Storing::Held& held = ops.storing.held[key];
  if (held.map == map && held.value == value) numbers = joined(held.numbers, numbers);
  // What does not fit into a frame is found out by who needs to know.
  if (numbers.size() > node::kMaxUnsettled) numbers.clear();
  if (numbers.empty()) {
    ops.storing.held.erase(key);
    return;
  }
  held = {map, value, std::move(numbers)};
  if (std::exchange(ops.storing.is_due, true)) return;
  if (!ops.background.try_spawn(tell_numbers(ops))) ops.storing.is_due = false;
}

namespace {

// Whether all of them are cancelled there.
Task<Result<bool>> cancel_at(OpsContext& ops, MapPtr map, NodeId node,
                             node::LogCancelRequest message, std::vector<uint64_t>* lsns,
                             TimePoint deadline) {
  const auto answer = co_await ask(ops.nodes, *map, node, message, call_deadline(ops, deadline));
  if (!answer) co_return fail(answer.error());
  if (answer->status() != Status::kOk || answer->args.lsns.size() != message.ids.size()) {
    co_return fail(ErrorCode::kUnavailable, "a copy can not cancel an update now");
  }
  if (lsns != nullptr) *lsns = answer->args.lsns;
  co_return std::ranges::all_of(answer->args.lsns, [](uint64_t lsn) { return lsn == 0; });
}

// `key` outlives the call.
Task<Result<bool>> cancel_at_all(OpsContext& ops, MapPtr map, std::vector<NodeId> copies,
                                 const std::string& key, node::LogCancelRequest message,
                                 TimePoint deadline) {
  message.m = map->max_parities;
  message.key = key;
  std::vector<Task<Result<bool>>> cancels;
  cancels.reserve(copies.size());
  for (const NodeId copy : copies) {
    cancels.push_back(cancel_at(ops, map, copy, message, nullptr, deadline));
  }
  bool is_cancelled = true;
  for (const auto& cancelled : co_await when_all(std::move(cancels))) {
    if (!cancelled) co_return fail(cancelled.error());
    is_cancelled &= *cancelled;
  }
  co_return is_cancelled;
}

}  // namespace

Task<bool> cancel_at_copies(OpsContext& ops, MapPtr map, std::string key, uint64_t value,
                            node::Id128 id, uint64_t known, TimePoint deadline) {
  if (mutant(Mutant::kRefuseUncancelled)) co_return true;
  node::LogCancelRequest message;
  message.value = value;
  message.known = known;
  message.ids = {id};
  const auto cancelled = co_await cancel_at_all(ops, map, copies_of(ops, *map, key), key,
                                                std::move(message), deadline);
  co_return cancelled && *cancelled;
}

Task<Result<void>> number_all(OpsContext& ops, MapPtr map, std::string key, NodeId copy,
                              TimePoint deadline) {
  auto told = co_await read_record(ops.nodes, map, copy, node::Role::kAny, key, /*if_version=*/0,
                                   call_deadline(ops, deadline), {node::LogWanted::kUnsettled});
  if (!told) co_return fail(told.error());
  if (told->log == nullptr || told->log->image.unnumbered.empty()) co_return Result<void>{};
  node::LogCancelRequest message;
  message.m = map->max_parities;
  message.value = told->log->image.value;
  message.key = key;
  for (const node::LogExtent& update : told->log->image.unnumbered) {
    message.ids.push_back(update.id);
  }
  std::vector<uint64_t> lsns;
  const auto cancelled =
      co_await cancel_at(ops, map, chain_of(*map, key).tail(), message, &lsns, deadline);
  if (!cancelled) co_return fail(cancelled.error());
  std::vector<node::Id128> others;
  for (size_t i = 0; i < lsns.size(); ++i) {
    if (lsns[i] == 0) others.push_back(message.ids[i]);
  }
  if (!*cancelled) {  // reading sees to it that all copies have the numbers of what is not settled
    auto read = co_await try_read_updated(ops, map, key, /*if_version=*/0, /*offset=*/0, UINT64_MAX,
                                          deadline);
    if (!read) co_return fail(read.error());
  }
  if (others.empty()) co_return Result<void>{};
  message.ids = std::move(others);
  std::vector<NodeId> copies = copies_of(ops, *map, key);
  // It may have been one by another dial.
  if (std::ranges::find(copies, copy) == copies.end()) copies.push_back(copy);
  const auto forgotten =
      co_await cancel_at_all(ops, map, std::move(copies), key, std::move(message), deadline);
  if (!forgotten) co_return fail(forgotten.error());
  co_return Result<void>{};
}

Task<Result<void>> carry_down(OpsContext& ops, MapPtr map, std::string key, RecordPtr record,
                              TimePoint deadline) {
  std::string encoded;
  node::encode(*record, encoded);
  const EncodedRecord bytes{{Buffer::copy_of(encoded)}};
  const NodeRoomsPtr rooms = ops.map.rooms();
  co_return co_await push_down(ops.nodes, *rooms, map, key, bytes, /*revive=*/false,
                               call_deadline(ops, deadline));
}

Task<Result<bool>> settle_view(OpsContext& ops, MapPtr map, std::string key, LogViewPtr view,
                               TimePoint deadline) {
  const node::LogImage& log = view->image;
  // By name: mostly they are there already, or on their way.
  std::vector<UpdateName> names;
  names.reserve(log.unsettled.size());
  for (const node::LogExtent& extent : log.unsettled) names.push_back({extent.id, extent.lsn});
  auto stored = co_await store_at_copies(ops, map, key, log.value, log.settled_to, {},
                                         std::move(names), deadline);
  if (!stored && stored.error().code == ErrorCode::kUnknownOutcome) {
    // Older than that value, or nothing: the record tells what counts.
    auto head = co_await try_read_head(ops, map, key, deadline);
    if (!head) co_return fail(head.error());
    stored = StoredCopies{head->record == nullptr ? new_record() : head->record};
  }
  if (!stored) co_return fail(stored.error());
  if (stored->other == nullptr) {
    note_settled(ops, map, key, log.value, log.unsettled.back().lsn);
    co_return true;
  }
  if (stored->other->meta.version == 0) {
    co_return fail(ErrorCode::kUnavailable, "a home of the key has lost its record");
  }
  auto carried = co_await carry_down(ops, map, key, stored->other, deadline);
  if (!carried) co_return fail(carried.error());
  co_return false;
}

Task<Result<RecordPtr>> renumber(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  auto tail = co_await try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (!tail) co_return fail(tail.error());
  if (tail->record == nullptr || !tail->record->is_striped()) co_return RecordPtr();
  Commit commit;
  commit.key = key;
  commit.mutation = node::Mutation::kFold;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = tail->record->meta.version;
  commit.known_version = tail->record->meta.version;
  commit.content = tail->record->content;
  auto result = co_await records::commit(ops, map, commit, deadline);
  if (result) co_return result->record;
  // Whether it has a new version or not, it has the same value.
  if (result.error().code != ErrorCode::kUnknownOutcome) co_return fail(result.error());
  co_return fail(ErrorCode::kUnavailable, "{}", result.error().message);
}

Task<Result<void>> tell_head_numbers(OpsContext& ops, MapPtr map, std::string key,
                                     TimePoint deadline) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.size() < 2) co_return Result<void>{};
  auto tail = co_await try_read_updated(ops, map, key, /*if_version=*/0, /*offset=*/0, UINT64_MAX,
                                        deadline);
  if (!tail) co_return fail(tail.error());
  if (tail->record == nullptr || tail->last_lsn() == 0) co_return Result<void>{};
  LogStoreRequest message;
  message.m = map->max_parities;
  message.value = tail->record->meta.value_version;
  message.settled_to = tail->last_lsn();
  message.key = key;
  const auto told =
      co_await ask(ops.nodes, *map, chain.head(), message, call_deadline(ops, deadline));
  // One that has another value needs to know nothing of this one.
  if (!told) co_return fail(told.error());
  co_return Result<void>{};
}

namespace {

Task<void> tell_settled(OpsContext& ops) {
  co_await ops.clock.sleep_for(kSettleAfter);
  Settling settling = std::exchange(ops.settling, {});
  if (settling.map == nullptr) co_return;
  for (auto& [tail, logs] : settling.by_tail) {
    node::LogSettleRequest message;
    message.entries.reserve(logs.size());
    for (const auto& [key, log] : logs) message.entries.push_back({key, log.value, log.lsn});
    if (message.entries.empty()) continue;
    (void)co_await ask(ops.nodes, *settling.map, tail, message,
                       ops.clock.now() + ops.settings.node_timeout);
  }
}

}  // namespace

uint64_t take_settled(OpsContext& ops, const MapPtr& map, std::string_view key, uint64_t value) {
  Settling& settling = ops.settling;
  if (settling.map != map) return 0;
  const auto logs = settling.by_tail.find(chain_of(*map, key).tail());
  if (logs == settling.by_tail.end()) return 0;
  const auto noted = logs->second.find(key);
  if (noted == logs->second.end() || noted->second.value != value) return 0;
  const uint64_t lsn = noted->second.lsn;
  logs->second.erase(noted);
  return lsn;
}

void note_settled(OpsContext& ops, const MapPtr& map, std::string_view key, uint64_t value,
                  uint64_t lsn) {
  Settling& settling = ops.settling;
  if (settling.map != map) settling.by_tail.clear();  // its nodes refuse what is of another epoch
  settling.map = map;
  auto& logs = settling.by_tail[chain_of(*map, key).tail()];
  const auto noted = logs.find(key);
  if (noted == logs.end()) {
    if (logs.size() < node::kMaxListEntries) logs.emplace(key, Settling::Log{value, lsn});
  } else if (noted->second.value != value) {
    noted->second = {value, lsn};
  } else {
    noted->second.lsn = std::max(noted->second.lsn, lsn);
  }
  if (std::exchange(settling.is_due, true)) return;
  if (!ops.background.try_spawn(tell_settled(ops))) settling.is_due = false;
}

}  // namespace elastripe::records
