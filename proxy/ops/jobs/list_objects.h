// Listing: every object that there is, for clients that ask for all keys.
#pragma once

#include <string_view>

#include "proxy/ops/context.h"

namespace elastripe::jobs {

struct ListedObject {
  std::string_view key;
  uint32_t exptime = 0;  // unix seconds; 0 = never
  uint64_t cas = 0;      // without what its update log has
  uint64_t size = 0;
};

// Who is shown them. An object lives until the visit ends; meanwhile nothing more is asked for.
class ObjectVisitor {
 public:
  // False: no more are wanted.
  virtual Task<bool> visit(ListedObject object) = 0;

 protected:
  ~ObjectVisitor() = default;
};

// Shows all objects, in no order: those that are there all the time at least once, what comes, goes
// or changes meanwhile perhaps. Where the map changes, or a node fails, partitions are listed
// again, so some objects are shown twice. Memory: one page of one node. Errors: nothing got on for
// request_timeout; kLost: what could be shown was, but some keys are not known any more, or
// their records can not be read.
Task<Result<void>> list_objects(OpsContext& ops, ObjectVisitor& visitor);

}  // namespace elastripe::jobs
