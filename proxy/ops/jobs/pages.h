// for_each_page: what a node lists of its records or shards, page by page.
#pragma once

#include <utility>

#include "proxy/cluster/ask.h"
#include "proxy/ops/context.h"

namespace elastripe::jobs {

// Asks `from` for the pages of `request`, from its cursor on, each within node_timeout, and hands
// each to take(page), which returns a Task<Result<bool>>. A page lives until its task has ended;
// then the next one is asked for. True: it was the last one; false: `take` said so, and wants no
// more. Errors: those of ask(), and of `take`. Memory: one page.
template <class Request, class Take>
Task<Result<bool>> for_each_page(OpsContext& ops, MapPtr map, NodeId from, Request request,
                                 Take take) {
  do {
    auto page =
        co_await ask(ops.nodes, *map, from, request, ops.clock.now() + ops.settings.node_timeout);
    if (!page) co_return fail(page.error());
    auto taken = co_await take(page->args);
    if (!taken || !*taken) co_return taken;
    request.cursor = page->args.cursor;
  } while (request.cursor != 0);
  co_return true;
}

}  // namespace elastripe::jobs
