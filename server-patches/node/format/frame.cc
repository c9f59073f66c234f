#include "server-patches/node/format/frame.h"

namespace elastripe::node {
namespace {

// Both headers share their first 48 bytes but for flags/status and cluster id/incarnation; see
// docs/node-protocol.md, "Headers".
struct RawHeader {
  uint8_t magic = 0;
  uint8_t version = 0;
  uint8_t opcode = 0;
  uint8_t flags_or_status = 0;
  uint32_t args_bytes = 0;
  uint32_t body_bytes = 0;
  uint64_t opaque = 0;
  uint64_t cluster_or_incarnation = 0;
  Epoch epoch;
  uint64_t word6 = 0;
  uint64_t word7 = 0;
};

// Every frame has one: written in place.
void write_raw(const RawHeader& h, std::span<std::byte, kHeaderBytes> out) {
  std::byte* place = out.data();
  const auto put = [&place](auto number) {
    const auto wire = little_endian(number);
    std::memcpy(place, &wire, sizeof wire);
    place += sizeof wire;
  };
  put(h.magic);
  put(h.version);
  put(h.opcode);
  put(h.flags_or_status);
  put(h.args_bytes);
  put(h.body_bytes);
  put(h.epoch.number);
  put(h.opaque);
  put(h.cluster_or_incarnation);
  put(h.epoch.decider);
  put(uint32_t{0});
  put(h.epoch.map_hash);
  put(h.word6);
  put(h.word7);
}

Decoded<RawHeader> read_raw(std::span<const std::byte, kHeaderBytes> in, uint8_t magic) {
  Reader r(in);
  RawHeader h;
  h.magic = r.u8();
  h.version = r.u8();
  h.opcode = r.u8();
  h.flags_or_status = r.u8();
  h.args_bytes = r.u32();
  h.body_bytes = r.u32();
  h.epoch.number = r.u32();
  h.opaque = r.u64();
  h.cluster_or_incarnation = r.u64();
  h.epoch.decider = r.u32();
  (void)r.u32();  // reserved
  h.epoch.map_hash = r.u64();
  h.word6 = r.u64();
  h.word7 = r.u64();
  if (h.magic != magic) return std::unexpected("wrong magic byte " + std::to_string(h.magic));
  if (h.version != kFormatVersion) {
    return std::unexpected("unknown format version " + std::to_string(h.version));
  }
  if (h.body_bytes > kMaxBodyBytes) {
    return std::unexpected("body of " + std::to_string(h.body_bytes) + " bytes is too large");
  }
  if (h.args_bytes > h.body_bytes) return std::unexpected("args are longer than the body");
  return h;
}

}  // namespace

namespace {

using OpcodePlaces = std::array<uint8_t, 256>;
constexpr OpcodePlaces kPlaces = [] {
  OpcodePlaces places;
  places.fill(kOpcodes.size());
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    places[static_cast<uint8_t>(kOpcodes[i].opcode)] = static_cast<uint8_t>(i);
  }
  return places;
}();

}  // namespace

size_t index_of(uint8_t opcode) { return kPlaces[opcode]; }

bool is_known(uint8_t opcode) { return index_of(opcode) < kOpcodes.size(); }

const char* name(Opcode opcode) {
  const size_t i = index_of(opcode);
  return i < kOpcodes.size() ? kOpcodes[i].name : "UNKNOWN";
}

bool is_control(Opcode opcode) { return static_cast<uint8_t>(opcode) < 10; }

const char* name(Status status) {
  switch (status) {
    case Status::kOk:
      return "OK";
    case Status::kSame:
      return "SAME";
    case Status::kNotFound:
      return "NOT_FOUND";
    case Status::kConditionFailed:
      return "CONDITION_FAILED";
    case Status::kFenced:
      return "FENCED";
    case Status::kNotSynced:
      return "NOT_SYNCED";
    case Status::kLost:
      return "LOST";
    case Status::kStaleEpoch:
      return "STALE_EPOCH";
    case Status::kNoLease:
      return "NO_LEASE";
    case Status::kJoining:
      return "JOINING";
    case Status::kNotHome:
      return "NOT_HOME";
    case Status::kNoSpace:
      return "NO_SPACE";
    case Status::kNotHere:
      return "NOT_HERE";
    case Status::kBadPage:
      return "BAD_PAGE";
    case Status::kExists:
      return "EXISTS";
    case Status::kNotInline:
      return "NOT_INLINE";
    case Status::kNotNumber:
      return "NOT_NUMBER";
    case Status::kTooLarge:
      return "TOO_LARGE";
    case Status::kInvalid:
      return "INVALID";
    case Status::kSuperseded:
      return "SUPERSEDED";
    case Status::kOtherValue:
      return "OTHER_VALUE";
    case Status::kOutOfRange:
      return "OUT_OF_RANGE";
    case Status::kLogFull:
      return "LOG_FULL";
    case Status::kRenumber:
      return "RENUMBER";
    case Status::kForgotten:
      return "FORGOTTEN";
  }
  return "UNKNOWN";
}

std::string to_string(const Epoch& epoch) {
  return std::to_string(epoch.number) + "/" + std::to_string(epoch.decider) + "/" +
         to_string(Id128{0, epoch.map_hash}).substr(16);
}

void encode(const RequestHeader& header, std::span<std::byte, kHeaderBytes> out) {
  write_raw({.magic = kRequestMagic,
             .version = kFormatVersion,
             .opcode = static_cast<uint8_t>(header.opcode),
             .args_bytes = header.args_bytes,
             .body_bytes = header.body_bytes,
             .opaque = header.opaque,
             .cluster_or_incarnation = header.cluster_id,
             .epoch = header.epoch,
             .word6 = header.incarnation,
             .word7 = header.now_ms},
            out);
}

void encode(const ReplyHeader& header, std::span<std::byte, kHeaderBytes> out) {
  write_raw({.magic = kReplyMagic,
             .version = kFormatVersion,
             .opcode = static_cast<uint8_t>(header.opcode),
             .flags_or_status = static_cast<uint8_t>(header.status),
             .args_bytes = header.args_bytes,
             .body_bytes = header.body_bytes,
             .opaque = header.opaque,
             .cluster_or_incarnation = header.incarnation,
             .epoch = header.epoch,
             .word6 = header.free_bytes,
             .word7 = 0},
            out);
}

Decoded<RequestHeader> decode_request_header(std::span<const std::byte, kHeaderBytes> in) {
  auto raw = read_raw(in, kRequestMagic);
  if (!raw) return std::unexpected(std::move(raw.error()));
  return RequestHeader{.opcode = static_cast<Opcode>(raw->opcode),
                       .args_bytes = raw->args_bytes,
                       .body_bytes = raw->body_bytes,
                       .opaque = raw->opaque,
                       .cluster_id = raw->cluster_or_incarnation,
                       .epoch = raw->epoch,
                       .incarnation = raw->word6,
                       .now_ms = raw->word7};
}

Decoded<ReplyHeader> decode_reply_header(std::span<const std::byte, kHeaderBytes> in) {
  auto raw = read_raw(in, kReplyMagic);
  if (!raw) return std::unexpected(std::move(raw.error()));
  return ReplyHeader{.opcode = static_cast<Opcode>(raw->opcode),
                     .status = static_cast<Status>(raw->flags_or_status),
                     .args_bytes = raw->args_bytes,
                     .body_bytes = raw->body_bytes,
                     .opaque = raw->opaque,
                     .incarnation = raw->cluster_or_incarnation,
                     .epoch = raw->epoch,
                     .free_bytes = raw->word6};
}

}  // namespace elastripe::node
