#include "server-patches/shim/slab_sizes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace elastripe::node {
namespace {

constexpr unsigned kMinPageBytes = SLAB_CHAIN_MAX;
constexpr unsigned kMaxPageBytes = 1 << 20;
constexpr unsigned kPages = 1024;
constexpr unsigned kMemcachedsMaxSizes = 62;  // beside the largest
constexpr unsigned kAlignBytes = 8;

// Sizes that fill the smallest page, and with it all pages, without a rest.
constexpr unsigned share_of_page(unsigned chunks) {
  return kMinPageBytes / chunks / kAlignBytes * kAlignBytes;
}

constexpr std::vector<unsigned> all_sizes() {
  std::vector<unsigned> sizes;
  // below 1 KiB the headers weigh more than what rounding costs: 9.5% apart
  sizes.push_back(96);
  for (unsigned chunks = kMinPageBytes / 96; chunks > 64; chunks = chunks * 1000 / 1095) {
    const unsigned bytes = share_of_page(chunks);
    if (bytes > sizes.back() + kAlignBytes) sizes.push_back(bytes);
  }
  // records of about 1 KiB, the smallest that many keep by the million: 2% apart
  for (unsigned chunks = 64; chunks > 42; --chunks) sizes.push_back(share_of_page(chunks));
  for (const unsigned chunks : {41u, 39u, 37u, 35u, 33u, 32u, 30u, 28u, 27u}) {
    sizes.push_back(share_of_page(chunks));
  }
  for (unsigned bytes = 2 * SLAB_CHAIN_MIN; bytes < SLAB_CHAIN_MAX; bytes *= 2) {
    sizes.push_back(bytes);
  }
  return sizes;
}

static_assert(all_sizes().size() <= kMemcachedsMaxSizes);
static_assert(std::ranges::is_sorted(all_sizes()));
static_assert(std::ranges::count(all_sizes(), SLAB_CHAIN_MIN) == 1);
static_assert(std::ranges::count(all_sizes(), SLAB_SINGLE_MAX) == 1);

}  // namespace

unsigned slab_page_bytes(int memory_mb) {
  const uint64_t share = (static_cast<uint64_t>(memory_mb) << 20) / kPages;
  return std::bit_floor(
      static_cast<unsigned>(std::clamp<uint64_t>(share, kMinPageBytes, kMaxPageBytes)));
}

std::string slab_sizes() {
  std::string list;
  for (const unsigned bytes : all_sizes()) {
    list += (list.empty() ? "" : "-") + std::to_string(bytes);
  }
  return list;
}

}  // namespace elastripe::node
