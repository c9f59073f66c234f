#include "proxy/cluster/record_ptr.h"

#include "proxy/base/memory_pool.h"

namespace elastripe {
namespace {

// A record with a larger value is not kept, nor is one with a table of segments.
constexpr size_t kSmallValueBytes = 4 << 10;
using SpareRecords = Spares<std::unique_ptr<node::Record>, 512>;

struct KeepRecord {
  void operator()(node::Record* gone) const {
    std::unique_ptr<node::Record> record(gone);
    if (record->content.value.capacity() > kSmallValueBytes) return;
    if (record->content.segments.capacity() > 0) return;
    static const node::Record empty;
    *record = empty;  // by copy: what it has allocated stays
    SpareRecords::keep(std::move(record));
  }
};

}  // namespace

std::shared_ptr<node::Record> new_record() {
  auto record = SpareRecords::take();
  if (record == nullptr) record = std::make_unique<node::Record>();
  return {record.release(), KeepRecord(), Pooled<node::Record>()};
}

}  // namespace elastripe
