#include "proxy/ops/objects/baselines/shard_updates.h"

#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/cluster/ask.h"
#include "proxy/ops/attempt.h"

namespace elastripe::objects {

using node::Status;

void ShardUpdate::add(size_t offset, ByteView bytes) {
  message.extents.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes.size()),
                             elastripe::crc32c(bytes)});
  pieces.push_back(Buffer::copy_of(bytes));
}

void ShardUpdate::copy_bytes_of(const ShardUpdate& other) {
  message.extents = other.message.extents;
  message.coefficients = other.message.coefficients;
  pieces = other.pieces;
}

std::vector<node::ShardUpdateReply::Range> ShardUpdate::changed_ranges() const {
  if (epoch != 0) return {};  // what the parities are told is not by how much
  if (message.mode != node::ShardUpdateMode::kSwap) return ranges;
  std::vector<node::ShardUpdateReply::Range> written;
  written.reserve(message.extents.size());
  for (const auto& extent : message.extents) written.push_back({extent.offset, extent.length});
  return written;
}

namespace {

// `update` lives until this has ended.
Task<Result<void>> send_one(OpsContext& ops, MapPtr map, ShardUpdate& update, TimePoint deadline) {
  Question<node::ShardUpdateRequest> frame{new_request(node::Opcode::kShardUpdate)};
  node::encode(update.message, frame.frame->args);
  frame.payload(update.pieces);
  auto answer =
      co_await ask(ops.nodes, *map, update.to, std::move(frame), call_deadline(ops, deadline));
  if (!answer) {
    if (!may_be_done(answer.error())) co_return fail(answer.error());
    co_return fail(ErrorCode::kUnknownOutcome, "{}", answer.error().message);
  }
  switch (answer->status()) {
    case Status::kOk:
      update.is_done = true;
      update.ranges = std::move(answer->args.ranges);
      update.epoch = answer->args.epoch;
      update.serial = answer->args.serial;
      update.answer =
          answer->reply.body.slice(answer->reply.header.args_bytes, answer->payload().size());
      co_return Result<void>{};
    case Status::kLogFull:
      (update.is_copy ? update.is_done : update.is_full) = true;
      co_return Result<void>{};
    case Status::kNoSpace:
      co_return fail(refusal(*map, update.to, answer->reply));
    default:
      co_return fail(ErrorCode::kNotFound, "shard {} is not on {}, or is damaged", update.index,
                     node_name(*map, update.to));
  }
}

int gravity(const Error& error) {
  if (error.code == ErrorCode::kUnknownOutcome) return 2;
  return is_worth_retrying(error) ? 0 : 1;
}

}  // namespace

Task<Result<void>> send_updates(OpsContext& ops, MapPtr map, std::vector<ShardUpdate>& updates,
                                TimePoint deadline) {
  std::vector<Task<Result<void>>> sends;
  sends.reserve(updates.size());
  for (ShardUpdate& update : updates) {
    if (!update.is_done && !update.is_full) sends.push_back(send_one(ops, map, update, deadline));
  }
  Result<void> worst;
  for (auto& sent : co_await when_all(std::move(sends))) {
    if (sent) continue;
    if (worst || gravity(sent.error()) > gravity(worst.error())) worst = std::move(sent);
  }
  co_return worst;
}

}  // namespace elastripe::objects
