#include "proxy/ops/records/read_tail.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/records/sync.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::Role;
using node::Status;

namespace {

Task<Result<TailRead>> try_read(OpsContext& ops, const MapPtr& map, Role role, std::string_view key,
                                uint64_t if_version, TimePoint deadline) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) {
    co_return fail(ErrorCode::kUnavailable, "no home of the key's partition is up");
  }
  const NodeId from = role == Role::kHead ? chain.head() : chain.tail();
  for (;;) {
    auto reply = co_await read_record(ops.nodes, map, from, role, key, if_version,
                                      call_deadline(ops, deadline));
    if (!reply) co_return fail(reply.error());
    if (reply->status != Status::kNotSynced) {
      co_return TailRead{reply->status == Status::kSame, std::move(reply->record), reply->floor};
    }
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "the key could not be synced in time");
    }
    auto synced = co_await sync_key(ops, map, std::string(key), deadline);
    if (!synced) co_return fail(synced.error());
  }
}

}  // namespace

Task<Result<TailRead>> try_read_tail(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     uint64_t if_version, TimePoint deadline) {
  const Role role = mutant(Mutant::kReadHead) ? Role::kHead : Role::kTail;
  return try_read(ops, map, role, key, if_version, deadline);
}

Task<Result<TailRead>> try_read_head(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     TimePoint deadline) {
  return try_read(ops, map, Role::kHead, key, 0, deadline);
}

namespace {

Task<Result<TailRead>> read_with_map(OpsContext& ops, MapPtr map, std::string_view key,
                                     TimePoint deadline) {
  auto read = co_await try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (read) read->map = std::move(map);
  co_return read;
}

}  // namespace

Task<Result<TailRead>> read_tail(OpsContext& ops, std::string_view key, TimePoint deadline) {
  return under_newest_map(ops, deadline, [&ops, key](const MapPtr& map, TimePoint& until) {
    return read_with_map(ops, map, key, until);
  });
}

}  // namespace elastripe::records
