// Records under a fuzzer: it would never guess a checksum, so inputs have none, and get them here.
#pragma once

#include <string>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/record.h"

namespace elastripe::node {

inline std::string sealed_content(ByteView bare) {
  std::string sealed;
  Writer(sealed).u32(crc32c(bare));
  sealed.append(as_text(bare));
  return sealed;
}

// A meta and a content; anything else stays as it is.
inline std::string sealed_record(ByteView bare) {
  constexpr size_t kAttemptsAt = 24;
  if (bare.size() <= kAttemptsAt) return std::string(as_text(bare));
  const size_t meta_bytes =
      kAttemptsAt + 1 + kAttemptBytes * static_cast<size_t>(bare[kAttemptsAt]);
  if (bare.size() < meta_bytes) return std::string(as_text(bare));
  std::string sealed(as_text(bare.first(meta_bytes)));
  Writer(sealed).u32(crc32c(bare.first(meta_bytes)));
  return sealed + sealed_content(bare.subspan(meta_bytes));
}

}  // namespace elastripe::node
