#include "proxy/ops/decider/proxy_notices.h"

#include <algorithm>

#include "server-patches/node/format/wire.h"

namespace elastripe::decider {
namespace {

using jobs::ClusterJob;
using jobs::JobState;
using node::Reader;
using node::Writer;

// Values are on the wire: never renumber.
enum class Kind : uint8_t { kCard = 1, kRequest = 2, kReply = 3, kJob = 4 };
enum class TaskKind : uint8_t {
  kFlushAll = 1,
  kAcceptLoss = 2,
  kDeclareDead = 3,
  kMembers = 4,
  kSettings = 5,
  kStartJob = 6,
  kCancelJob = 7
};
enum class AnswerKind : uint8_t { kOtherDecides = 0, kDone = 1, kFailed = 2 };

constexpr size_t kMaxSurviving = 64;
constexpr size_t kMaxMaintenanceBytes = 3 << 10;
constexpr uint32_t kNoScrub = UINT32_MAX;

uint32_t ms_of(std::chrono::milliseconds duration) {
  return static_cast<uint32_t>(std::clamp<int64_t>(duration.count(), 0, UINT32_MAX));
}

constexpr size_t kRoomBytes =
    sizeof(node::NodeId) + sizeof(uint64_t) + sizeof(uint8_t) + 2 * sizeof(uint32_t);

void write(Writer& w, const Handover& handover) {
  const size_t rooms = std::min(handover.rooms.size(), Handover::kMost);
  w.u16(static_cast<uint16_t>(rooms));
  for (size_t i = 0; i < rooms; ++i) {
    const Handover::RoomOf& room = handover.rooms[i];
    w.u16(room.node);
    w.u64(room.incarnation);
    w.u8(static_cast<uint8_t>(room.room));
    w.u32(ms_of(room.wait));
    w.u32(ms_of(room.try_in));
  }
  w.u32(handover.surveyed_in);
}

void write_scrub_due(Writer& w, const Handover& handover) {
  const auto due_in = handover.scrub_due_in;
  w.u32(due_in ? static_cast<uint32_t>(std::clamp<int64_t>(due_in->count(), 0, kNoScrub - 1))
               : kNoScrub);
}

std::optional<std::chrono::seconds> read_scrub_due(Reader& in) {
  const uint32_t due_in_s = in.u32();
  if (due_in_s == kNoScrub) return std::nullopt;
  return std::chrono::seconds(due_in_s);
}

Handover read_handover(Reader& in) {
  Handover handover;
  handover.rooms.resize(in.count<uint16_t>(kRoomBytes));
  for (Handover::RoomOf& room : handover.rooms) {
    room.node = in.u16();
    room.incarnation = in.u64();
    const uint8_t left = in.u8();
    if (left > static_cast<uint8_t>(Room::kNone)) in.fail();
    room.room = static_cast<Room>(left);
    room.wait = std::chrono::milliseconds(in.u32());
    room.try_in = std::chrono::milliseconds(in.u32());
  }
  handover.surveyed_in = in.u32();
  return handover;
}

void write(Writer& w, const ProxyCard& card) {
  w.u8(static_cast<uint8_t>(Kind::kCard));
  w.short_string(card.name);
  w.short_string(card.clients);
  w.short_string(card.admin);
  w.short_string(card.version);
  w.u32(card.decides_as);
  w.u8(card.leaves);
  const DeciderFindings& findings = card.findings;
  w.u64(findings.objects_lacking);
  w.u64(findings.objects_lost);
  w.u32(findings.partitions_to_move);
  w.u32(findings.partitions_short);
  w.u8(findings.can_accept_loss);
  const auto count = std::min(findings.objects_surviving.size(), kMaxSurviving);
  w.u16(static_cast<uint16_t>(count));
  for (size_t i = 0; i < count; ++i) w.u64(findings.objects_surviving[i]);
  w.u64(card.capabilities.bits());
  w.u8(card.runs_jobs);
  write(w, card.handover);
  w.short_string(findings.maintenance.size() > kMaxMaintenanceBytes ? "" : findings.maintenance);
  // Fields of later builds are behind those that older ones know.
  write_scrub_due(w, card.handover);
  if (!card.unix_ms) return;
  w.u64(static_cast<uint64_t>(*card.unix_ms));
  w.u32(card.handover.forgets_in.number);
  w.u32(card.handover.forgets_in.decider);
  w.u64(card.handover.forgets_in.map_hash);
}

constexpr uint64_t kLatest_ms = INT64_MAX / 2;

ProxyCard read_card(Reader& in) {
  ProxyCard card;
  card.name = in.short_string();
  card.clients = in.short_string();
  card.admin = in.short_string();
  card.version = in.short_string();
  card.decides_as = in.u32();
  card.leaves = in.u8() != 0;
  DeciderFindings& findings = card.findings;
  findings.objects_lacking = in.u64();
  findings.objects_lost = in.u64();
  findings.partitions_to_move = in.u32();
  findings.partitions_short = in.u32();
  findings.can_accept_loss = in.u8() != 0;
  findings.objects_surviving.resize(in.count<uint16_t>(sizeof(uint64_t)));
  for (uint64_t& objects : findings.objects_surviving) objects = in.u64();
  if (!in.at_end()) card.capabilities = node::CapabilitySet(in.u64());
  if (!in.at_end()) card.runs_jobs = in.u8() != 0;
  if (!in.at_end()) card.handover = read_handover(in);
  if (!in.at_end()) findings.maintenance = in.short_string();
  if (!in.at_end()) card.handover.scrub_due_in = read_scrub_due(in);
  // The difference of two is a number, too.
  if (!in.at_end()) card.unix_ms = static_cast<int64_t>(std::min(in.u64(), kLatest_ms));
  if (!in.at_end()) {
    card.handover.forgets_in.number = in.u32();
    card.handover.forgets_in.decider = in.u32();
    card.handover.forgets_in.map_hash = in.u64();
  }
  return card;
}

void write_task(Writer& w, const FlushAll& flush) {
  w.u8(static_cast<uint8_t>(TaskKind::kFlushAll));
  w.u32(flush.at);
}
void write_task(Writer& w, const AcceptLoss&) { w.u8(static_cast<uint8_t>(TaskKind::kAcceptLoss)); }
void write_task(Writer& w, const DeclareDead& dead) {
  w.u8(static_cast<uint8_t>(TaskKind::kDeclareDead));
  w.short_string(dead.node);
}
void write_task(Writer& w, const MemberChange& change) {
  w.u8(static_cast<uint8_t>(TaskKind::kMembers));
  w.u8(static_cast<uint8_t>(change.kind));
  w.short_string(change.node.name);
  w.short_string(change.node.host);
  w.u16(change.node.port);
  w.short_string(change.node.domain);
}

void write_task(Writer& w, const SettingsChange& change) {
  w.u8(static_cast<uint8_t>(TaskKind::kSettings));
  w.u32(change.of_version);
  w.u8(change.max_parities);
  node::encode_settings(change.settings, w);
}

void write_task(Writer& w, const StartJob& start) {
  w.u8(static_cast<uint8_t>(TaskKind::kStartJob));
  w.u64(start.token);
  w.short_string(start.kind);
  w.short_string(start.order);
}

void write_task(Writer& w, const CancelJob& cancel) {
  w.u8(static_cast<uint8_t>(TaskKind::kCancelJob));
  w.u64(cancel.id);
  w.short_string(cancel.kind);
}

std::optional<DeciderTask> read_task(Reader& in) {
  switch (static_cast<TaskKind>(in.u8())) {
    case TaskKind::kFlushAll:
      return FlushAll{in.u32()};
    case TaskKind::kAcceptLoss:
      return AcceptLoss{};
    case TaskKind::kDeclareDead:
      return DeclareDead{std::string(in.short_string())};
    case TaskKind::kMembers: {
      MemberChange change;
      const uint8_t kind = in.u8();
      if (kind > static_cast<uint8_t>(MemberChange::Kind::kRemove)) return std::nullopt;
      change.kind = static_cast<MemberChange::Kind>(kind);
      change.node.name = in.short_string();
      change.node.host = in.short_string();
      change.node.port = in.u16();
      change.node.domain = in.short_string();
      return change;
    }
    case TaskKind::kSettings: {
      SettingsChange change;
      change.of_version = in.u32();
      change.max_parities = in.u8();
      change.settings = node::decode_settings(in);
      return change;
    }
    case TaskKind::kStartJob: {
      StartJob start;
      start.token = in.u64();
      start.kind = in.short_string();
      start.order = in.short_string();
      return start;
    }
    case TaskKind::kCancelJob: {
      CancelJob cancel{.id = in.u64()};
      if (!in.at_end()) cancel.kind = in.short_string();
      return cancel;
    }
  }
  return std::nullopt;
}

void write_job(Writer& w, const ClusterJob& job) {
  w.u64(job.id);
  w.u64(job.token);
  w.short_string(job.kind);
  w.short_string(job.order);
  w.u32(job.term);
  w.u32(job.version);
  w.u32(job.runs);
  w.u8(static_cast<uint8_t>(job.state));
  w.u8(job.cancelling);
  w.short_string(job.report);
}

std::optional<ClusterJob> read_job(Reader& in) {
  ClusterJob job;
  job.id = in.u64();
  job.token = in.u64();
  job.kind = in.short_string();
  job.order = in.short_string();
  job.term = in.u32();
  job.version = in.u32();
  job.runs = in.u32();
  const uint8_t state = in.u8();
  job.cancelling = in.u8() != 0;
  job.report = in.short_string();
  if (job.id == 0 || state > static_cast<uint8_t>(JobState::kFailed)) return std::nullopt;
  job.state = static_cast<JobState>(state);
  return job;
}

void write(Writer& w, const ClusterJob& job) {
  w.u8(static_cast<uint8_t>(Kind::kJob));
  write_job(w, job);
}

void write(Writer& w, const TaskRequest& request) {
  w.u8(static_cast<uint8_t>(Kind::kRequest));
  w.u32(request.decider);
  w.u32(request.within_ms);
  std::visit([&](const auto& task) { write_task(w, task); }, request.task);
}

// Codes by their names, as their numbers are of a build.
std::optional<ErrorCode> code_of(std::string_view text) {
  for (auto number = uint8_t{0}; number <= static_cast<uint8_t>(ErrorCode::kLost); ++number) {
    const auto code = static_cast<ErrorCode>(number);
    if (name(code) == text) return code;
  }
  return std::nullopt;
}

void write(Writer& w, const TaskReply& reply) {
  w.u8(static_cast<uint8_t>(Kind::kReply));
  w.u64(reply.to_number);
  if (!reply.answer) {
    w.u8(static_cast<uint8_t>(AnswerKind::kOtherDecides));
  } else if (*reply.answer) {
    const AcceptedLoss& accepted = (*reply.answer)->loss;
    w.u8(static_cast<uint8_t>(AnswerKind::kDone));
    w.u32(accepted.start_empty);
    w.u32(accepted.lost);
    w.u64(accepted.objects);
    const auto& job = (*reply.answer)->job;
    w.u8(job.has_value());
    if (job) write_job(w, *job);
  } else {
    const Error& error = reply.answer->error();
    w.u8(static_cast<uint8_t>(AnswerKind::kFailed));
    w.short_string(name(error.code));
    w.short_string(error.message.substr(0, 1000));
  }
}

std::optional<TaskReply> read_reply(Reader& in) {
  TaskReply reply{.to_number = in.u64(), .answer = {}};
  switch (static_cast<AnswerKind>(in.u8())) {
    case AnswerKind::kOtherDecides:
      return reply;
    case AnswerKind::kDone: {
      AcceptedLoss accepted;
      accepted.start_empty = in.u32();
      accepted.lost = in.u32();
      accepted.objects = in.u64();
      TaskOutcome outcome{.loss = accepted};
      if (!in.at_end() && in.u8() != 0) outcome.job = read_job(in);
      reply.answer = std::move(outcome);
      return reply;
    }
    case AnswerKind::kFailed: {
      const auto code = code_of(in.short_string());
      const std::string message(in.short_string());
      // A newer build may mean anything by it.
      reply.answer = fail(Error{code.value_or(ErrorCode::kUnknownOutcome), message});
      return reply;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const ProxyNotice& notice) {
  std::string text;
  Writer w(text);
  std::visit([&](const auto& said) { write(w, said); }, notice);
  return text;
}

std::optional<ProxyNotice> decode_notice(std::string_view text) {
  Reader in(node::as_view(text));
  std::optional<ProxyNotice> notice;
  switch (static_cast<Kind>(in.u8())) {
    case Kind::kCard:
      notice = read_card(in);
      break;
    case Kind::kRequest: {
      const uint32_t decider = in.u32();
      const uint32_t within_ms = in.u32();
      if (auto task = read_task(in)) notice = TaskRequest{decider, within_ms, std::move(*task)};
      break;
    }
    case Kind::kReply:
      if (auto reply = read_reply(in)) notice = std::move(*reply);
      break;
    case Kind::kJob:
      if (auto job = read_job(in)) notice = std::move(*job);
      break;
  }
  if (!in.ok()) return std::nullopt;
  return notice;
}

}  // namespace elastripe::decider
