#include "proxy/session/execute.h"

#include <utility>

#include "proxy/memcache/replies.h"
#include "proxy/session/listing.h"
#include "proxy/session/retrieval.h"

namespace elastripe {
namespace {

using memcache::Command;
using memcache::Output;

Task<Result<CommandOutcome>> store(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdSet);
  const uint64_t size = command.value->size();
  if (run.context.ops.storage_of(command.key, size) == Storage::kStriped) {
    run.path = objects::ReadPath::kStriped;
  }
  objects::StoreRequest request;
  request.verb = command.verb;
  request.key = command.key;
  request.flags = command.flags;
  request.exptime = run.expiry(command.exptime);
  request.cas = command.cas;
  if (command.creates) request.creates = run.expiry(*command.creates);
  request.new_cas = command.new_cas;
  request.stale_if_older = command.invalidates;
  request.value = command.value;
  request.staging_memory = &run.client.memory()->staged;
  co_return co_await run.context.ops.store(request);
}

Task<Result<CommandOutcome>> update(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdSet);
  objects::UpdateRequest request;
  request.key = command.key;
  request.offset = command.range.offset;
  request.cas = command.cas;
  request.value = command.value;
  request.staging_memory = &run.client.memory()->staged;
  const auto outcome = co_await run.context.ops.update(request);
  if (!outcome) co_return fail(outcome.error());
  if (run.context.ops.storage_of(command.key, outcome->size) == Storage::kStriped) {
    run.path = objects::ReadPath::kStriped;
  }
  co_return *outcome;
}

Task<Result<CommandOutcome>> counter(Execution& run, ClientCommand& command) {
  objects::CounterRequest request{.key = command.key,
                                  .delta = command.delta,
                                  .increment = command.increments,
                                  .cas = command.cas,
                                  .new_cas = command.new_cas};
  if (command.touches) request.exptime = run.expiry(*command.touches);
  if (command.creates) request.creates = {command.initial, run.expiry(*command.creates)};
  co_return co_await run.context.ops.change_counter(request);
}

Task<Result<CommandOutcome>> remove(Execution& run, ClientCommand& command) {
  objects::RemoveRequest request{.key = command.key,
                                 .cas = command.cas,
                                 .marks_stale = command.invalidates,
                                 .empties = command.empties,
                                 .new_cas = command.new_cas};
  if (command.touches) request.exptime = run.expiry(*command.touches);
  co_return co_await run.context.ops.remove(request);
}

Task<Result<CommandOutcome>> touch(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdTouch);
  const auto found = co_await run.context.ops.touch(command.key, run.expiry(command.exptime));
  if (!found) co_return fail(found.error());
  co_return TouchOutcome{*found};
}

// A delay is an exptime; a negative one is none.
Task<Result<CommandOutcome>> flush(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdFlush);
  if (!run.context.settings.allows_flush) co_return memcache::replies::kFlushNotAllowed;
  const uint32_t at = command.exptime <= 0 ? 0 : run.expiry(command.exptime);
  const auto flushed = co_await run.context.ops.flush_all(at);
  if (!flushed) co_return fail(flushed.error());
  co_return Accepted{};
}

// What the proxy answers by itself.
Task<Result<CommandOutcome>> perform_here(Execution& run, const ClientCommand& command) {
  ServerStats& server = run.context.server;
  if (command.command == Command::kStats) co_return server.answer(command.argument);
  if (command.command == Command::kVersion) co_return VersionOutcome{server.version};
  if (command.command == Command::kMetaNoop) co_return Noop{};
  co_return Accepted{};
}

bool is_counter(Command command) {
  return command == Command::kIncr || command == Command::kDecr ||
         command == Command::kMetaArithmetic;
}

bool reads(Command command) {
  return memcache::is_retrieval(command) || command == Command::kMetaGet ||
         command == Command::kMetaDebug;
}

// Any command that is no retrieval.
Task<Result<CommandOutcome>> perform(Execution& run, ClientCommand& command) {
  const Command which = command.command;
  if (command.is_part) return update(run, command);
  if (memcache::is_storage(which)) return store(run, command);
  if (is_counter(which)) return counter(run, command);
  if (which == Command::kDelete || which == Command::kMetaDelete) return remove(run, command);
  if (which == Command::kTouch) return touch(run, command);
  if (which == Command::kFlushAll) return flush(run, command);
  return perform_here(run, command);
}

CommandStatus count(Execution& run, const ClientCommand& command,
                    const objects::StoreOutcome& outcome) {
  const bool cas = command.verb == objects::StoreVerb::kCas;
  switch (outcome.status) {
    case objects::StoreStatus::kStored:
      run.count(Stat::kTotalItems);
      if (cas) run.count(Stat::kCasHits);
      return CommandStatus::kOk;
    case objects::StoreStatus::kNotStored:
      return CommandStatus::kRefused;
    case objects::StoreStatus::kExists:
      if (cas) run.count(Stat::kCasBadval);
      return CommandStatus::kRefused;
    case objects::StoreStatus::kNotFound:
      if (cas) run.count(Stat::kCasMisses);
      return CommandStatus::kMiss;
  }
  return CommandStatus::kOk;
}

CommandStatus count(Execution& run, const ClientCommand&, const objects::UpdateOutcome& outcome) {
  switch (outcome.status) {
    case objects::UpdateStatus::kUpdated:
      run.count(Stat::kTotalItems);
      return CommandStatus::kOk;
    case objects::UpdateStatus::kNotFound:
      return CommandStatus::kMiss;
    case objects::UpdateStatus::kExists:
    case objects::UpdateStatus::kOutOfRange:
      return CommandStatus::kRefused;
  }
  return CommandStatus::kOk;
}

CommandStatus count(Execution& run, const ClientCommand& command,
                    const objects::CounterOutcome& outcome) {
  const bool increment = command.increments;
  switch (outcome.status) {
    case objects::CounterStatus::kOk:
      run.count(increment ? Stat::kIncrHits : Stat::kDecrHits);
      return CommandStatus::kOk;
    case objects::CounterStatus::kNotFound:
      run.count(increment ? Stat::kIncrMisses : Stat::kDecrMisses);
      return CommandStatus::kMiss;
    case objects::CounterStatus::kNotNumber:
      return CommandStatus::kClientError;
    case objects::CounterStatus::kExists:
      return CommandStatus::kRefused;
  }
  return CommandStatus::kOk;
}

CommandStatus count(Execution& run, const ClientCommand&, objects::RemoveStatus status) {
  const bool is_removed = status == objects::RemoveStatus::kRemoved;
  run.count(is_removed ? Stat::kDeleteHits : Stat::kDeleteMisses);
  if (is_removed) return CommandStatus::kOk;
  return status == objects::RemoveStatus::kExists ? CommandStatus::kRefused : CommandStatus::kMiss;
}

CommandStatus count(Execution& run, const ClientCommand&, TouchOutcome outcome) {
  run.count(outcome.found ? Stat::kTouchHits : Stat::kTouchMisses);
  return outcome.found ? CommandStatus::kOk : CommandStatus::kMiss;
}

CommandStatus count(Execution&, const ClientCommand&, memcache::Refusal) {
  return CommandStatus::kClientError;
}

CommandStatus count(Execution&, const ClientCommand&, const auto&) { return CommandStatus::kOk; }

void answer(Execution& run, const ClientCommand& command, const Result<CommandOutcome>& outcome) {
  if (outcome) {
    run.responder.answer(run.output, *outcome);
    run.status = std::visit([&](const auto& what) { return count(run, command, what); }, *outcome);
    return;
  }
  if (memcache::is_storage(command.command)) {
    if (outcome.error().code == ErrorCode::kTooLarge) run.count(Stat::kStoreTooLarge);
    if (outcome.error().code == ErrorCode::kNoSpace) run.count(Stat::kStoreNoMemory);
  }
  run.fail(outcome.error());
}

}  // namespace

Task<Output> execute(SessionContext& context, CommandClient& client, ClientCommand& command) {
  Execution run{context, client, command.responder()};
  const Command which = command.command;
  const TimePoint started = context.clock.turn_time();
  if (memcache::is_meta(which)) run.count(Stat::kCmdMeta);
  if (command.refusal) {
    run.refuse(command.refusal);
  } else if (reads(which)) {
    co_await run_retrieval(run, command);
  } else if (memcache::is_listing(which)) {
    co_await run_listing(run, command);
  } else {
    answer(run, command, co_await perform(run, command));
  }
  const std::chrono::duration<double> took = context.clock.turn_time() - started;
  context.stats.command(which, run.status, run.path, took.count());
  co_return std::move(run.output);
}

}  // namespace elastripe
