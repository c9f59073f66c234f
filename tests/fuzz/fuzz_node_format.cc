// Every decoder of the node protocol. The first byte chooses the decoder. What decodes must encode
// to the bytes that it came from: two spellings of one message would be two records of one version.
#include <array>
#include <cstdlib>

#include "server-patches/node/format/messages.h"
#include "tests/fuzz/seal.h"

using namespace elastripe::node;

namespace {

void require_same(std::string_view encoded, ByteView in) {
  if (encoded != as_text(in)) std::abort();
}

template <class Message>
void try_message(ByteView in) {
  const auto message = decode<Message>(in);
  if (!message) return;
  std::string again;
  encode(*message, again);
  require_same(again, in);
}

// The input is the record without its checksums.
void try_record(ByteView bare) {
  const std::string bytes = sealed_record(bare);
  const auto record = decode_record(as_view(bytes));
  if (!record) return;
  std::string again;
  encode(*record, again);
  require_same(again, as_view(bytes));
}

// The input is the map without its hash, which no fuzzer would guess.
void try_map(ByteView body) {
  std::string bytes;
  Writer(bytes).u64(hash_key(as_text(body)));
  bytes.append(as_text(body));
  const auto map = decode_map(as_view(bytes));
  if (!map) return;
  std::string again;
  encode(*map, again);
  require_same(again, as_view(bytes));
}

template <class Header, class Decode>
void try_header(ByteView in, Decode decode_header) {
  if (in.size() != kHeaderBytes) return;
  const Decoded<Header> header = decode_header(in.first<kHeaderBytes>());
  if (!header) return;
  std::array<std::byte, kHeaderBytes> again;
  encode(*header, again);
  require_same(as_text(again), in);
}

void try_request_header(ByteView in) { try_header<RequestHeader>(in, decode_request_header); }
void try_reply_header(ByteView in) { try_header<ReplyHeader>(in, decode_reply_header); }

// Corpora depend on the order: append only.
constexpr std::array kDecoders = {
    try_record,
    try_map,
    try_request_header,
    try_reply_header,
    try_message<HelloReply>,
    try_message<HeartbeatRequest>,
    try_message<RecordReadRequest>,
    try_message<FloorReply>,
    try_message<DamagedReply>,
    try_message<RecordApplyRequest>,
    try_message<RecordApplyReply>,
    try_message<RecordStoreRequest>,
    try_message<RecordStoreReply>,
    try_message<RecordScanRequest>,
    try_message<RecordScanReply>,
    try_message<MarkSyncedRequest>,
    try_message<RaiseFloorRequest>,
    try_message<DropTombstonesRequest>,
    try_message<ShardWriteRequest>,
    try_message<ShardWriteReply>,
    try_message<ShardReadRequest>,
    try_message<ShardConfirmRequest>,
    try_message<ShardConfirmReply>,
    try_message<ShardDeleteRequest>,
    try_message<ShardDeleteReply>,
    try_message<ShardScanRequest>,
    try_message<ShardScanReply>,
    try_message<RecordConfirmRequest>,
    try_message<RecordConfirmReply>,
    try_message<RecordFetchRequest>,
    try_message<RecordFetchReply>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView in = std::as_bytes(std::span(data, size));
  kDecoders[data[0] % kDecoders.size()](in.subspan(1));
  return 0;
}
