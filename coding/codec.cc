#include "coding/codec.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "coding/gf.h"

namespace elastripe::coding {

Codec::Codec(const Scheme& scheme, std::vector<uint8_t> matrix)
    : scheme_(scheme), layout_(scheme), matrix_(std::move(matrix)) {
  for (int i = 0; i < shards(); ++i) {
    (i < k_prime() ? data_shards_ : parity_shards_).set(static_cast<size_t>(i));
  }
}

std::expected<const Codec*, std::string> codec_for(const Scheme& scheme) {
  using Key = std::tuple<LayoutKind, uint8_t, uint8_t, uint8_t>;
  static std::mutex mutex;
  // Leaked on purpose: codecs outlive every static that may hold one.
  static auto& codecs = *new std::map<Key, std::unique_ptr<const Codec>>;

  if (auto valid = validate(scheme); !valid) return std::unexpected(valid.error());
  const std::lock_guard lock(mutex);
  auto& codec = codecs[Key{scheme.layout, scheme.k, scheme.m, scheme.k_prime}];
  if (!codec) {
    std::vector<uint8_t> matrix = vandermonde_coding_matrix(scheme.k_prime, scheme.m);
    if (matrix.empty()) return std::unexpected("no coding matrix for " + to_string(scheme));
    codec = std::make_unique<const Codec>(scheme, std::move(matrix));
  }
  return codec.get();
}

}  // namespace elastripe::coding
