// Fingerprints of blocks: 16 bytes that say whether the blocks of a codeword fit together, without
// the blocks.
//
// A fingerprint is linear over GF(2^8): that of a parity block is the same combination of the
// fingerprints of the data blocks as the parity block is of the data blocks. So parity is compared
// with data wherever the fingerprints meet, and only these travel.
//
// Let E be GF(2^128) as an extension of GF(2^8): its elements are 16 bytes, and bytes are scalars.
// The rows of a block are its pieces of 64 bytes, the last one padded with zeros; a chunk is 128
// rows. Out of the seed come 128 elements a_r of E, an element s, and an element u for each of the
// 16 * 64 bytes of a sum. Each chunk is summed up to 64 elements, one a column:
//
//   sum[w] = over the rows r of the chunk: a_r * byte w of row r
//   total[w] = s * total[w] + sum[w]                        chunk after chunk (Horner's rule)
//   fingerprint = over all bytes n of total: u_n * byte n   an inner product
//
// Two different blocks of C chunks that were chosen without the seed have the same fingerprint with
// a probability of at most (C + 1) / 2^128, if the generator is as good as chance: 1 for a chunk
// that sums up to nothing, C - 1 for the roots of a polynomial in s, 1 for the inner product. That
// is 2^-127 for blocks of up to 8 KiB, 2^-120 for 1 MiB, and 2^-110 for the largest of 1 GiB.
//
// This is polynomial evaluation and a vector hash as in J. L. Carter, M. N. Wegman, "Universal
// classes of hash functions" (1979); checking a code by it: T. Schwarz, E. Miller, "Store, forget,
// and check" (2006).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coding/codec.h"
#include "coding/gf.h"

namespace elastripe::coding {

inline constexpr size_t kFingerprintBytes = 16;
using Fingerprint = std::array<uint8_t, kFingerprintBytes>;

struct FingerprintSeed {
  uint64_t high = 0;
  uint64_t low = 0;
};

// What a processor with the instructions for it does at several times the speed, every other one
// does, too, with the same result.
enum class FingerprintKernel : uint8_t { kFastest, kPortable };

// What one seed expands to: up to 90 KiB, made in some 10 microseconds. Immutable; any thread.
class Fingerprinter {
 public:
  explicit Fingerprinter(const FingerprintSeed& seed,
                         FingerprintKernel kernel = FingerprintKernel::kFastest);

  // A block of any length; that of no bytes, or of zeros only, is zero. Zeros at the end do not
  // count: whoever compares blocks knows their lengths.
  Fingerprint of(std::span<const std::byte> block) const;

 private:
  static constexpr size_t kRowBytes = 64;
  static constexpr size_t kChunkRows = 128;
  static constexpr size_t kChunkBytes = kChunkRows * kRowBytes;
  // The sum so far goes into the next one as 16 more rows: s times it is a matrix.
  static constexpr size_t kInputs = kFingerprintBytes + kChunkRows;

  // A row for each byte of E, an element a column.
  struct Sum {
    alignas(64) std::array<std::byte, kFingerprintBytes * kRowBytes> bytes;
  };

  void add_chunk(const std::byte* chunk, Sum& total) const;
  Fingerprint close(const Sum& total) const;

  bool is_fast_;
  Combination rows_;                          // of kInputs, portable
  std::vector<uint64_t> row_matrices_;        // [input][byte of E], fast
  std::vector<Fingerprint> closing_vectors_;  // u_n
};

inline Fingerprint fingerprint(const FingerprintSeed& seed, std::span<const std::byte> block) {
  return Fingerprinter(seed).of(block);
}

// What the fingerprints of one segment tell.
struct FingerprintCheck {
  // Shards that the others contradict: without this one, all blocks of some codeword fit together,
  // and without any other one they do not; and those named here are all needed to explain the rest.
  ShardSet wrong;
  // Blocks of a codeword do not fit together, and neither does any single shard explain it nor
  // those above: more are wrong, or too few parities are known.
  bool has_unexplained = false;

  bool is_clean() const { return wrong.none() && !has_unexplained; }
};

// `shards` has the fingerprints of all blocks of each of the k' + m shards in their order, under
// one seed; empty: not known. Codewords of which no more blocks are known than their code needs
// tell nothing.
FingerprintCheck check_fingerprints(const Codec& codec, State state,
                                    std::span<const std::vector<Fingerprint>> shards);

}  // namespace elastripe::coding
