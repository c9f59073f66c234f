#include "proxy/session/listing.h"

#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

constexpr size_t kPartBytes = 16 << 10;

class ListingReply final : public jobs::ObjectVisitor {
 public:
  ListingReply(Execution& run, uint32_t limit) : run_(run), limit_(limit) {}

  Task<bool> visit(jobs::ListedObject object) override {
    run_.responder.listed(run_.output, object);
    if (++listed_ == limit_) co_return false;
    if (run_.output.bytes() >= kPartBytes) {
      run_.send_part();
      if (!run_.client.has_room()) co_await run_.client.room();
    }
    co_return !run_.client.is_gone();
  }

 private:
  Execution& run_;
  const uint32_t limit_;  // 0: none
  uint64_t listed_ = 0;
};

}  // namespace

Task<void> run_listing(Execution& run, const ClientCommand& command) {
  if (!run.context.settings.allows_dump) {
    run.refuse(command.command == memcache::Command::kMetadump
                   ? memcache::replies::kMetadumpNotAllowed
                   : memcache::replies::kCachedumpNotAllowed);
    co_return;
  }
  if (run.context.lists) {
    run.refuse(memcache::replies::kAlreadyListing);
    co_return;
  }
  run.context.lists = true;
  ListingReply reply(run, command.limit);
  const auto listed = co_await run.context.ops.list(reply);
  run.context.lists = false;
  if (listed) {
    run.responder.end(run.output);
    co_return;
  }
  run.fail(listed.error());
  run.send_part();
  run.client.cut();
}

}  // namespace elastripe
