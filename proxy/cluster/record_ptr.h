// RecordPtr: a record as flows share it.
#pragma once

#include <memory>

#include "server-patches/node/format/record.h"

namespace elastripe {

using RecordPtr = std::shared_ptr<const node::Record>;

// An empty record to fill, in the memory of one that is gone.
std::shared_ptr<node::Record> new_record();

}  // namespace elastripe
