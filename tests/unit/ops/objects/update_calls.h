// What tests of updates have in common: bytes to tell apart, and an update of whole bytes.
#pragma once

#include "tests/unit/ops/cluster_fixture.h"

namespace elastripe {

// They depend on the place, also of pages, and on the salt.
inline std::string bytes_of(size_t size, uint64_t salt) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    value[i] = static_cast<char>((i * 131 + (i >> 8) * 7 + salt) & 0xff);
  }
  return value;
}

inline Task<Result<objects::UpdateOutcome>> update_with(OpsContext& ops,
                                                        objects::UpdateRequest request,
                                                        std::string bytes, TimePoint deadline) {
  objects::WholeValue whole(Buffer::copy_of(bytes));
  request.value = &whole;
  co_return co_await objects::update_object(ops, request, deadline);
}

}  // namespace elastripe
