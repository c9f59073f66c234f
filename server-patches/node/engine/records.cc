// Records: reading, committing at the head, storing, dropping tombstones.
// docs/node-protocol.md, "Records"; rules 5-9 of docs/consistency.md.
#include <algorithm>

#include "server-patches/node/engine/impl.h"
#include "server-patches/node/engine/mutation.h"

namespace elastripe::node {
namespace {

constexpr const char* kDamagedHere = "the key's copy here was damaged";

bool carries_content(Mutation mutation) {
  return mutation == Mutation::kSet || mutation == Mutation::kAppend ||
         mutation == Mutation::kPrepend || mutation == Mutation::kTouch ||
         mutation == Mutation::kReshape || mutation == Mutation::kFold ||
         mutation == Mutation::kMark;
}

// Shards of the same value: whoever changes them knows which they are.
bool moves_shards(Mutation mutation) {
  return mutation == Mutation::kReshape || mutation == Mutation::kFold;
}

bool adds_bytes(Mutation mutation) {
  return mutation == Mutation::kAppend || mutation == Mutation::kPrepend;
}

// Whether the new content is made of the inline value of the old one.
bool takes_old_value(Mutation mutation) {
  return adds_bytes(mutation) || mutation == Mutation::kIncrement ||
         mutation == Mutation::kDecrement || mutation == Mutation::kTouch ||
         mutation == Mutation::kFence || mutation == Mutation::kMark;
}

// The content that an APPLY carries; an error if it does not suit the mutation. Only bytes to be
// added are copied out of the payload.
Decoded<RecordContent> decode_given(const RecordApplyRequest& request, ByteView payload) {
  if (request.attempt_id.is_zero()) return std::unexpected("an attempt needs an id");
  if (!carries_content(request.mutation)) {
    if (!payload.empty()) return std::unexpected("the mutation takes no content");
    return RecordContent{};
  }
  if (payload.size() > kMaxContentBytes) return std::unexpected("the content is too large");
  Reader in(payload);
  std::string_view value;
  auto content = decode_content(in, value);
  if (!content) return content;
  if (adds_bytes(request.mutation)) {
    if (content->kind != RecordKind::kInline) {
      return std::unexpected("only inline bytes can be added");
    }
    content->value = value;
  }
  if (request.mutation == Mutation::kSet && content->kind == RecordKind::kTombstone) {
    return std::unexpected("a SET does not delete");
  }
  if (moves_shards(request.mutation) &&
      (content->kind != RecordKind::kStriped || request.condition != Condition::kIfVersion)) {
    return std::unexpected("only a striped record of a known version gets other shards");
  }
  if (request.mutation == Mutation::kMark && request.condition != Condition::kIfVersion) {
    return std::unexpected("only a record of a known version is marked");
  }
  return content;
}

bool has_possible_versions(const RecordMeta& meta, const ClusterMap& map) {
  return meta.version <= max_version(map) && meta.value_version <= meta.version &&
         meta.fence <= meta.version &&
         std::ranges::all_of(meta.recent, [&](const RecentAttempt& attempt) {
           return attempt.version <= meta.version;
         });
}

// `highest`: of the versions before. Whatever may have been updated has taken numbers behind its
// version, and needs them.
uint64_t next_version(uint64_t highest, const Record* before, const Record& next) {
  const bool has_updates = before == nullptr || before->is_striped() || next.is_striped();
  return has_updates ? next_block(highest) : highest + 1;
}

// Whether the condition may be one of an update that has no number yet.
bool is_above(const RecordApplyRequest& request, const Record& record, uint64_t last_lsn) {
  const bool by_value = request.condition == Condition::kIfValueVersion;
  if (!by_value && record.meta.version != request.condition_argument) return false;
  return (by_value ? request.condition_argument : request.made_of_cas) >
         last_change(record, last_lsn);
}

Urgency urgency_of(Mutation mutation) {
  switch (mutation) {
    case Mutation::kDelete:
    case Mutation::kFence:
      return Urgency::kMayUseReserve;
    case Mutation::kTouch:
    case Mutation::kMark:
      return Urgency::kCommitted;
    default:
      return Urgency::kNewData;
  }
}

Urgency urgency_of_store(const Record& record, bool moves_in) {
  if (moves_in) return Urgency::kNewData;
  return record.is_tombstone() ? Urgency::kMayUseReserve : Urgency::kCommitted;
}

}  // namespace

std::optional<Answer> check_role(const Context& c, size_t partition_number, Role role, uint8_t m) {
  const Partition& partition = c.map.partitions[partition_number];
  if (role == Role::kAny) {
    if (is_home(partition, c.self, partition.homes.size()) || is_source(partition, c.self)) {
      return std::nullopt;
    }
    return refuse(Status::kNotHome, "the node is neither home nor source of the partition");
  }
  if (m < 1 || m > c.map.max_parities) return refuse(Status::kInvalid, "m is out of bounds");
  // With fewer live homes than m+1 the last of them decides.
  const size_t last = std::min<size_t>(m, std::max<size_t>(partition.homes.size(), 1) - 1);
  const size_t place = role == Role::kTail ? 0 : last;
  if (partition.homes.empty() || partition.homes[place] != c.self) {
    return refuse(Status::kNotHome, "the node is not the head or tail of the key");
  }
  return std::nullopt;
}

std::optional<Answer> check_knowledge(Knowledge knowledge) {
  if (knowledge == Knowledge::kDamaged) {
    return refuse(Status::kNotSynced, kDamagedHere);
  }
  if (knowledge == Knowledge::kNotSynced && !mutant(Mutant::kAnswerUnsynced)) {
    return refuse(Status::kNotSynced, "neither the key nor its partition is synced");
  }
  if (knowledge == Knowledge::kLost && !mutant(Mutant::kLostIsMiss)) {
    return refuse(Status::kLost, "the partition lost all its synced homes");
  }
  return std::nullopt;
}

Engine::Impl::Found Engine::Impl::find_record(size_t partition, std::string_view item_key,
                                              Trust trust) {
  return take_record(store_.find(item_key), partition, item_key, trust);
}

Engine::Impl::Found Engine::Impl::take_record(ItemRef item, size_t partition,
                                              std::string_view item_key, Trust trust) {
  Found found;
  found.item = std::move(item);
  if (!found.item) return found;
  found.prefix = read_record_prefix(store_, found.item);
  found.forgotten = found.prefix.is_intact && found.prefix.tenure < partitions_[partition].tenure;
  const bool is_trusted = trust == Trust::kPrefix && found.prefix.is_intact &&
                          !is_damaged(partition, item_key.substr(1));
  if (!found.forgotten && !is_trusted) check(partition, item_key, found);
  return found;
}

void Engine::Impl::check(size_t partition, std::string_view item_key, Found& found) {
  found.damaged = !is_intact(found);
  if (found.damaged) note_damaged(partition, item_key.substr(1), highest_version(found.prefix));
}

bool Engine::Impl::is_intact(Found& found) const {
  if (!found.prefix.is_intact) return false;
  const ByteView bytes = store_.view(found.item, kRecordPrefixBytes, found.prefix.record_bytes);
  if (!bytes.empty()) return node::is_intact(bytes);
  found.copy = record_bytes(found);
  return node::is_intact(found.copy.bytes());
}

OwnedBytes Engine::Impl::record_bytes(Found& found) const {
  if (found.copy.size() > 0) return std::exchange(found.copy, {});
  OwnedBytes bytes(found.prefix.record_bytes);
  store_.read(found.item, kRecordPrefixBytes, bytes.bytes());
  return bytes;
}

Decoded<Engine::Impl::Loaded> Engine::Impl::load_record(Found& found, bool to_replace) const {
  Loaded loaded;
  ByteView bytes = store_.view(found.item, kRecordPrefixBytes, found.prefix.record_bytes);
  if (bytes.empty()) {
    loaded.copy = record_bytes(found);
    bytes = loaded.copy.bytes();
  }
  auto record = to_replace ? decode_replaced(bytes) : decode_record(bytes, loaded.value);
  if (!record) return std::unexpected(std::move(record.error()));
  loaded.record = std::move(*record);
  return loaded;
}

bool Engine::Impl::has_commit(Found& found, uint64_t version) const {
  if (found.prefix.version == version) return true;
  const auto loaded = load_record(found);
  if (!loaded) return false;
  const auto& recent = loaded->record.meta.recent;
  return std::ranges::find(recent, version, &RecentAttempt::version) != recent.end();
}

bool Engine::Impl::link_record(const Context& c, size_t partition, std::string_view item_key,
                               const Record& record, ByteView meta, ByteView content,
                               Urgency urgency, const Found& replaced, bool marks) {
  const size_t record_bytes = meta.size() + content.size();
  const size_t item_bytes = record_item_bytes(record, record_bytes);
  const ItemRef item = allocate(c, item_key, item_bytes, urgency);
  if (!item) return false;
  const RecordItemPrefix fields{
      .tenure = partitions_[partition].tenure,
      .record_bytes = static_cast<uint32_t>(record_bytes),
      .written_s = static_cast<uint32_t>((c.now_ms + 999) / 1000),
      .synced_in = synced_in(partition, item_key, replaced, marks),
      .version = record.meta.version,
  };
  std::string prefix;
  encode(fields, item_key, prefix);
  store_.write(item, 0, as_view(prefix));
  store_.write(item, kRecordPrefixBytes, meta);
  store_.write(item, kRecordPrefixBytes + meta.size(), content);
  store_.link(item, /*stays=*/record.meta.value_version != record.meta.version);
  if (replaced.item) {
    counters_.record_bytes -= store_.value_bytes(replaced.item);
  } else {
    ++counters_.records;
  }
  counters_.record_bytes += item_bytes;
  fit_log(partition, item_key.substr(1), record);
  return true;
}

// What the item of the key says from now on.
uint32_t Engine::Impl::synced_in(size_t partition, std::string_view item_key, const Found& replaced,
                                 bool marks) {
  PartitionState& state = partitions_[partition];
  if (marks) return map_->epoch.number;
  if (replaced.visible() || state.synced) return replaced.prefix.synced_in;
  // A key that was synced as missing has a record now, which remembers it.
  std::lock_guard lock(state.mutex);
  const auto absent = state.absent_keys.find(item_key.substr(1));
  if (absent == state.absent_keys.end()) return 0;
  state.absent_keys.erase(absent);
  return map_->epoch.number;
}

bool Engine::Impl::relink_record(const Context& c, size_t partition, std::string_view item_key,
                                 const Found& found, bool marks) {
  const size_t item_bytes = store_.value_bytes(found.item);
  const ItemRef item = allocate(c, item_key, item_bytes, Urgency::kMayUseReserve);
  if (!item) return false;
  RecordItemPrefix fields = found.prefix;
  fields.tenure = partitions_[partition].tenure;
  fields.synced_in = synced_in(partition, item_key, found, marks);
  std::string prefix;
  encode(fields, item_key, prefix);
  OwnedBytes rest(item_bytes - kRecordPrefixBytes);
  store_.read(found.item, kRecordPrefixBytes, rest.bytes());
  store_.write(item, 0, as_view(prefix));
  store_.write(item, kRecordPrefixBytes, rest.bytes());
  store_.link(item, /*stays=*/true);
  return true;
}

void Engine::Impl::remove_record(std::string_view item_key, const Found& found) {
  if (!store_.remove(item_key)) return;
  logs_.retire(item_key.substr(1));
  --counters_.records;
  counters_.record_bytes -= store_.value_bytes(found.item);
}

Answer Engine::Impl::record_read(const Context& c, const RecordReadRequest& request) {
  const uint64_t hash = hash_key(request.key);
  const size_t partition = c.map.partition_of(request.key);
  if (auto refusal = check_role(c, partition, request.role, request.m)) {
    return std::move(*refusal);
  }
  Found found;
  Knowledge known{};
  bool damaged = false;
  ToldLog log;
  ItemStore::Use use;
  {
    const RecordItemKey item_key = record_item_key(request.key);
    const Latch held = latch(hash);
    const bool asks = request.is_use || request.tells_use;
    found = take_record(asks ? store_.use(item_key, request.is_use, use) : store_.find(item_key),
                        partition, item_key, Trust::kNothing);
    known = knowledge(partition, request.key, found);
    damaged = is_damaged(partition, request.key);
    if (request.log != LogWanted::kNone &&
        (request.role == Role::kAny || !check_knowledge(known))) {
      log = tell_log(c, partition, request, found, known);
    }
  }
  if (request.role != Role::kAny) {
    if (auto refusal = check_knowledge(known)) return std::move(*refusal);
  } else if (has_passed_on(partition)) {
    return refuse(Status::kNotSynced, "the node is a source that has forgotten the partition");
  }
  RecordReadReply reply{.floor = partitions_[partition].floor,
                        .log = std::move(log.encoded),
                        .log_age_ms = log.age_ms};
  if (request.log == LogWanted::kImage && found.visible()) {
    reply.synced_in = std::max<uint32_t>(partitions_[partition].synced_in, found.prefix.synced_in);
  }
  if (damaged) {
    reply.damaged_version = damaged_version(partition, request.key);
    return answer(Status::kBadPage, reply, found.visible() ? record_bytes(found) : OwnedBytes());
  }
  if (!found.visible()) return answer(Status::kNotFound, reply);
  if (request.tells_use) reply.use = {.was_used = use.was_used, .idle_s = use.idle_s};
  if (request.if_version != 0 && found.prefix.version == request.if_version) {
    return answer(Status::kSame, reply);
  }
  return answer(Status::kOk, reply, record_bytes(found));
}

Answer Engine::Impl::record_apply(const Context& c, const RecordApplyRequest& request) {
  auto given = decode_given(request, c.frame.payload);
  if (!given) return refuse(Status::kInvalid, given.error());
  const uint64_t hash = hash_key(request.key);
  const size_t partition = c.map.partition_of(request.key);
  if (auto refusal = check_role(c, partition, Role::kHead, request.m)) {
    return std::move(*refusal);
  }
  const Latch held = latch(hash);
  return apply_latched(c, request, partition, std::move(*given));
}

Answer Engine::Impl::apply_latched(const Context& c, const RecordApplyRequest& request,
                                   size_t partition, RecordContent given) {
  const RecordItemKey item_key = record_item_key(request.key);
  Found found = find_record(partition, item_key, Trust::kPrefix);
  const bool overwrites =
      request.mutation == Mutation::kSet && request.condition == Condition::kAlways;
  std::optional<Loaded> current;
  std::string failure;
  if (found.visible()) {
    if (auto loaded = load_record(found, overwrites)) {
      current = std::move(*loaded);
    } else {
      failure = std::move(loaded.error());
      check(partition, item_key, found);
    }
  }
  const Knowledge known = knowledge(partition, request.key, found);
  // The one thing that a LOST partition takes, and that is put in the place of a damaged copy: what
  // was lost can not matter to it.
  const bool revives =
      (known == Knowledge::kLost || known == Knowledge::kDamaged) && request.blind && overwrites;
  if (!revives) {
    if (auto refusal = check_knowledge(known)) return std::move(*refusal);
  }
  // Versions and fences that the damaged copy may have had stay below what comes. (No more: each
  // time that the floor rises, an upload that began before has to begin again.)
  if (revives && known == Knowledge::kDamaged) {
    raise(partitions_[partition].floor, std::max(damaged_version(partition, request.key),
                                                 found.visible() ? found.prefix.version : 0));
  }
  if (revives) current.reset();
  if (!revives && found.visible() && !current) {  // bytes of another program, as they match
    return refuse(Status::kInvalid, "stored record: " + failure);
  }
  if (current && takes_old_value(request.mutation)) {
    current->record.content.value = current->value;
  }
  Record* record = current ? &current->record : nullptr;
  const uint64_t floor = partitions_[partition].floor;
  const bool depends_on_cas =
      request.made_of_cas != 0 || request.condition == Condition::kIfValueVersion;
  const bool may_wait = depends_on_cas && record != nullptr &&
                        has_unnumbered(partition, request.key, found) &&
                        !mutant(Mutant::kCasIgnoresUnnumbered);
  bool waits_for_numbers = false;
  const auto answer_current = [&](Status status) {
    if (record != nullptr && overwrites) {
      check(partition, item_key, found);
      if (found.damaged) return refuse(Status::kNotSynced, kDamagedHere);
    }
    const RecordApplyReply reply{.floor = floor,
                                 .whole_record = record != nullptr,
                                 .superseded = {},
                                 .has_unnumbered = waits_for_numbers};
    return answer(status, reply, record != nullptr ? record_bytes(found) : OwnedBytes());
  };
  if (record != nullptr) {
    if (const RecentAttempt* attempt = record->find_attempt(request.attempt_id)) {
      const bool newest = attempt->version == record->meta.version;
      return answer_current(newest ? Status::kOk : Status::kSuperseded);
    }
  }
  const uint64_t fence = record != nullptr ? record->meta.fence : floor;
  if (request.base_version < fence && !mutant(Mutant::kIgnoreFence)) {
    return answer_current(Status::kFenced);
  }
  const Moment now{c.frame.header.now_ms, c.map.flush_floor};
  const bool blind_head = mutant(Mutant::kBlindHead) && request.condition == Condition::kIfVersion;
  if (!blind_head) {
    const uint64_t last = last_lsn(partition, request.key, found);
    const auto refused = check_condition(request, record, floor, last, now);
    // Numbers rise: a cas below that of the numbered ones has gone for good.
    waits_for_numbers = may_wait && (!refused || is_above(request, *record, last));
    if (waits_for_numbers) return answer_current(Status::kConditionFailed);
    if (refused) return answer_current(*refused);
  }
  auto content = mutate(request, record, now, std::move(given));
  if (!content) return answer_current(content.error());

  Answer result = commit(c, request, partition, record, std::move(*content), found, revives);
  if (result.status == Status::kOk && revives) forget_damage(partition, request.key);
  return result;
}

Answer Engine::Impl::commit(const Context& c, const RecordApplyRequest& request, size_t partition,
                            Record* current, RecordContent content, const Found& replaced,
                            bool revives) {
  const uint64_t floor = partitions_[partition].floor;
  Record next{.meta = {}, .content = std::move(content)};
  RecordMeta& meta = next.meta;
  if (current != nullptr) {
    if (changes_value(request.mutation)) note_folded(partition, request.key, replaced, *current);
    meta = std::move(current->meta);
  } else {
    meta.fence = floor;
  }
  // A revived key's old record counts as missing, yet its version stays below the new one.
  const uint64_t before = replaced.visible() ? replaced.prefix.version : 0;
  meta.version = next_version(std::max({before, floor, c.map.version_floor}), current, next);
  // In the place of a damaged copy: the list of attempts is to tell nothing of those before.
  const bool forgets =
      current == nullptr && knowledge(partition, request.key, replaced) == Knowledge::kDamaged;
  if (forgets) meta.recent.assign(kRecentAttempts, {meta.version - 1, {}});
  if (changes_value(request.mutation) || current == nullptr) meta.value_version = meta.version;
  if (request.mutation == Mutation::kFence) meta.fence = meta.version;
  name_given_cas(next.content, meta.version);
  meta.recent.push_back({meta.version, request.attempt_id});
  if (meta.recent.size() > kRecentAttempts) meta.recent.erase(meta.recent.begin());

  std::string encoded_meta;
  encode(meta, encoded_meta);
  std::string encoded_content;
  if (request.mutation != Mutation::kSet) encode(next.content, encoded_content);
  const ByteView content_bytes =
      request.mutation == Mutation::kSet ? c.frame.payload : as_view(encoded_content);
  const RecordItemKey item_key = record_item_key(request.key);
  if (mutant(Mutant::kDeleteForgets) && request.mutation == Mutation::kDelete) {
    remove_record(item_key, replaced);
  } else if (!link_record(c, partition, item_key, next, as_view(encoded_meta), content_bytes,
                          urgency_of(request.mutation), replaced, revives)) {
    return refuse(Status::kNoSpace, "no memory for the record");
  }
  raise(max_version_, meta.version);
  const bool proxy_has_content =
      request.mutation == Mutation::kSet || request.mutation == Mutation::kDelete;
  RecordApplyReply reply{.floor = floor, .whole_record = !proxy_has_content};
  if (proxy_has_content && current != nullptr && current->content.kind == RecordKind::kStriped) {
    encode(current->content, reply.superseded);
  }
  if (!proxy_has_content) encoded_meta += encoded_content;
  return answer(Status::kOk, reply, OwnedBytes(encoded_meta));
}

// An item without a record is a damaged copy like any other: scans tell of it, and a blind SET
// takes its place.
Answer Engine::Impl::store_lost(const Context& c, const RecordStoreRequest& request) {
  if (!c.frame.payload.empty() || !request.sync) {
    return refuse(Status::kInvalid, "a lost record has no bytes, and is told by sync");
  }
  if (request.lost_version > max_floor(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const size_t partition = c.map.partition_of(request.key);
  const Partition& homes = c.map.partitions[partition];
  if (!is_home(homes, c.self, homes.homes.size())) {
    return refuse(Status::kNotHome, "the node is no home of the key");
  }
  const RecordItemKey item_key = record_item_key(request.key);
  const Latch held = latch(hash_key(request.key));
  const Found found = find_record(partition, item_key);
  const Knowledge known = knowledge(partition, request.key, found);
  const bool stays = found.visible() && found.prefix.version >= request.lost_version;
  if (stays || known == Knowledge::kSynced) {
    const uint64_t missing = std::max<uint64_t>(partitions_[partition].floor, 1);
    return answer(Status::kOk, RecordStoreReply{found.visible() ? found.prefix.version : missing});
  }
  if (known == Knowledge::kDamaged && !found.visible() &&
      damaged_version(partition, request.key) >= request.lost_version) {
    return refuse(Status::kSame, "the key's record counts as damaged already");
  }
  Record none;
  none.meta.version = request.lost_version;
  std::string version;
  Writer(version).u64(request.lost_version);
  if (!link_record(c, partition, item_key, none, as_view(version), {}, Urgency::kMayUseReserve,
                   found, /*marks=*/true)) {
    return refuse(Status::kNoSpace, "no memory for the record");
  }
  raise(max_version_, request.lost_version);
  note_damaged(partition, request.key, request.lost_version);
  return answer(Status::kOk, RecordStoreReply{});
}

Answer Engine::Impl::record_store(const Context& c, const RecordStoreRequest& request) {
  if (request.lost_version != 0) return store_lost(c, request);
  std::string_view value;  // stays in the payload
  const auto record = decode_record(c.frame.payload, value);
  if (!record) return refuse(Status::kInvalid, record.error());
  if (!has_possible_versions(record->meta, c.map)) {
    return refuse(Status::kInvalid, "no epoch so far can have assigned the record's versions");
  }
  const size_t partition = c.map.partition_of(request.key);
  const Partition& homes = c.map.partitions[partition];
  if (!is_home(homes, c.self, request.sync ? homes.homes.size() : request.m + size_t{1})) {
    return refuse(Status::kNotHome, "the node is no home of the key");
  }
  const uint64_t version = record->meta.version;
  const RecordItemKey item_key = record_item_key(request.key);
  const Latch held = latch(hash_key(request.key));
  Found found = find_record(partition, item_key, Trust::kPrefix);
  // What stays is offered here again, and is to be intact.
  if (found.visible() && found.prefix.version >= version) check(partition, item_key, found);
  const Knowledge known = knowledge(partition, request.key, found);
  const uint64_t floor = partitions_[partition].floor;
  // Sync brings a new home whole partitions: these must leave the reserve to commits.
  const bool moves_in = request.sync && !is_source(homes, c.self);
  // Whatever the damaged copy was, this is that commit or a newer one, whose head knew all before.
  const bool replaces_damaged = !request.sync && is_damaged(partition, request.key) &&
                                version >= damaged_version(partition, request.key);
  const bool revives = request.revive && (known == Knowledge::kLost ||
                                          (known == Knowledge::kDamaged && replaces_damaged));
  const bool keeps =
      found.visible() && found.prefix.version >= version && !mutant(Mutant::kStoreAnyVersion);
  // Sync brings live records that are older than the floor, unless the key is synced: then the
  // floor stands for what is missing. A commit always has a version above the floor that its head
  // had, so the floor has risen since: a tombstone of the key was collected meanwhile, or the
  // head's copy was damaged, and what it committed last is no part of the record any more.
  const auto is_late = [&] {
    if (version > floor) return false;
    if (request.sync) return !found.visible() && known == Knowledge::kSynced;
    return known != Knowledge::kLost && !(keeps && has_commit(found, version));
  };
  if (is_late()) {
    return refuse(Status::kFenced, "the version is not above the partition's floor");
  }
  if (keeps) {
    if (revives && !mark_key(c, partition, request.key, found)) {
      return refuse(Status::kNoSpace, "no memory for the mark");
    }
  } else {
    if (!link_record(c, partition, item_key, *record, {}, c.frame.payload,
                     urgency_of_store(*record, moves_in), found, revives)) {
      return refuse(Status::kNoSpace, "no memory for the record");
    }
    if (replaces_damaged) forget_damage(partition, request.key);
    raise(max_version_, version);
  }
  // Nobody knows more of a key that is synced here than its tail. In a LOST partition, too, what
  // was set since is synced with its log.
  const bool is_unsynced = known == Knowledge::kNotSynced || known == Knowledge::kLost;
  if (!request.log.empty() && request.sync && is_unsynced) {
    if (auto refusal = store_log(c, request, *record, partition)) return std::move(*refusal);
  }
  return answer(Status::kOk, RecordStoreReply{keeps ? found.prefix.version : version});
}

Answer Engine::Impl::drop_tombstones(const Context& c, const DropTombstonesRequest& request) {
  const size_t partition = request.partition;
  if (partition >= c.map.partitions.size()) return refuse(Status::kInvalid, "no such partition");
  const Partition& homes = c.map.partitions[partition];
  if (!is_home(homes, c.self, homes.homes.size())) {
    return refuse(Status::kNotHome, "the node is no home of the partition");
  }
  // While homes disagree, a tombstone may be all that stands against an older live record.
  if (!partitions_[partition].synced) {
    return refuse(Status::kNotSynced, "the partition is not synced");
  }
  if (request.tombstones.size() > kMaxListEntries) {
    return refuse(Status::kInvalid, "too many tombstones");
  }
  for (const auto& [key, _] : request.tombstones) {
    if (c.map.partition_of(key) != partition) {
      return refuse(Status::kInvalid, "a key is of another partition");
    }
  }
  for (const auto& [key, version] : request.tombstones) {
    const RecordItemKey item_key = record_item_key(key);
    const Latch held = latch(hash_key(key));
    Found found = find_record(partition, item_key);
    if (!found.visible() || found.prefix.version != version) continue;
    // The floor is what stands for it from now on.
    if (version > partitions_[partition].floor && !mutant(Mutant::kDropWithoutFloor)) continue;
    const auto record = load_record(found);
    if (record &&
        record->record.is_as_good_as_tombstone(c.frame.header.now_ms, c.map.flush_floor)) {
      remove_record(item_key, found);
    }
  }
  return {};
}

}  // namespace elastripe::node
