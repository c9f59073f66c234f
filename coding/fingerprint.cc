#include "coding/fingerprint.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>

namespace elastripe::coding {
namespace {

using Element = Fingerprint;  // of E, lowest power first

// E is GF(2^8)[x] modulo x^16 + x^5 + x^2 + 2, which is primitive.
Element times_x(const Element& a) {
  Element product{};
  std::copy(a.begin(), a.end() - 1, product.begin() + 1);
  product[0] = gf_multiply(2, a.back());
  product[2] ^= a.back();
  product[5] ^= a.back();
  return product;
}

// xoshiro256**, by D. Blackman and S. Vigna, from a state that splitmix64 spreads.
class Generator {
 public:
  explicit Generator(const FingerprintSeed& seed) {
    const uint64_t high = mix(seed.high ^ mix(seed.low));
    const uint64_t low = mix(seed.low + 0x9e3779b97f4a7c15);
    state_ = {mix(seed.high), low, high, mix(high ^ low) | 1};
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Bytes of the numbers lowest first, whatever the processor does.
  Element next_element() {
    Element element;
    for (size_t i = 0; i < element.size(); i += 8) {
      const uint64_t bits = next();
      for (size_t j = 0; j < 8; ++j) element[i + j] = static_cast<uint8_t>(bits >> (8 * j));
    }
    return element;
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::array<uint64_t, 4> state_;
};

#ifdef __x86_64__

// GFNI applies an 8 x 8 bit matrix to bytes: a product by a constant is one instruction. Its
// matrices have the row of the highest bit in the lowest byte.
using BitMatrices = std::array<uint64_t, 256>;

const BitMatrices& bit_matrices() {
  static const BitMatrices all = [] {
    BitMatrices made{};
    for (unsigned c = 0; c < made.size(); ++c) {
      for (unsigned column = 0; column < 8; ++column) {
        const uint8_t product = gf_multiply(static_cast<uint8_t>(c), uint8_t(1u << column));
        for (unsigned row = 0; row < 8; ++row) {
          const uint64_t bit = (product >> row) & 1u;
          made[c] |= bit << (8 * (7 - row) + column);
        }
      }
    }
    return made;
  }();
  return all;
}

bool has_fast_kernel() {
  static const bool has =
      __builtin_cpu_supports("gfni") != 0 && __builtin_cpu_supports("avx512f") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return has;
}

#define ELASTRIPE_GFNI __attribute__((target("gfni,avx512f,avx512bw,avx512vl")))

// clang 19 encodes the offset of a matrix that GFNI itself repeats wrongly (8 bytes count as 64),
// so it must not find out that this can be done.
ELASTRIPE_GFNI __m512i repeated(const uint64_t& matrix) {
  __m512i all;
  asm("vpbroadcastq %1, %0" : "=v"(all) : "m"(matrix));
  return all;
}

// All 16 rows of the sum stay in registers.
ELASTRIPE_GFNI void add_rows(const uint64_t* matrices, const std::byte* rows, size_t count,
                             __m512i* sum) {
  for (size_t i = 0; i < count; ++i) {
    const __m512i row = _mm512_loadu_si512(rows + i * 64);
    for (size_t j = 0; j < kFingerprintBytes; ++j) {
      const __m512i matrix = repeated(matrices[i * kFingerprintBytes + j]);
      sum[j] = _mm512_xor_si512(sum[j], _mm512_gf2p8affine_epi64_epi8(row, matrix, 0));
    }
  }
}

ELASTRIPE_GFNI void add_chunk_fast(const uint64_t* matrices, const std::byte* chunk,
                                   size_t chunk_rows, std::byte* total) {
  __m512i sum[kFingerprintBytes];
  for (__m512i& row : sum) row = _mm512_setzero_si512();
  add_rows(matrices, total, kFingerprintBytes, sum);
  add_rows(matrices + kFingerprintBytes * kFingerprintBytes, chunk, chunk_rows, sum);
  for (size_t j = 0; j < kFingerprintBytes; ++j) _mm512_storeu_si512(total + j * 64, sum[j]);
}

ELASTRIPE_GFNI Fingerprint close_fast(const Fingerprint* vectors,
                                      std::span<const std::byte> total) {
  const BitMatrices& matrices = bit_matrices();
  __m128i sum = _mm_setzero_si128();
  for (size_t n = 0; n < total.size(); ++n) {
    const __m128i vector = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&vectors[n]));
    const __m512i matrix = repeated(matrices[static_cast<uint8_t>(total[n])]);
    sum = _mm_xor_si128(sum, _mm_gf2p8affine_epi64_epi8(vector, _mm512_castsi512_si128(matrix), 0));
  }
  Fingerprint closed;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(closed.data()), sum);
  return closed;
}

#undef ELASTRIPE_GFNI

#else

bool has_fast_kernel() { return false; }

#endif

}  // namespace

Fingerprinter::Fingerprinter(const FingerprintSeed& seed, FingerprintKernel kernel)
    : is_fast_(kernel == FingerprintKernel::kFastest && has_fast_kernel()),
      closing_vectors_(kFingerprintBytes * kRowBytes) {
  Generator generator(seed);
  // By input: s * x^0 .. s * x^15, whose matrix is the product by s, then a_0 .. a_127.
  std::array<Element, kInputs> factors;
  factors[0] = generator.next_element();
  for (size_t i = 1; i < kInputs; ++i) {
    factors[i] = i < kFingerprintBytes ? times_x(factors[i - 1]) : generator.next_element();
  }
  for (Fingerprint& vector : closing_vectors_) vector = generator.next_element();
#ifdef __x86_64__
  if (is_fast_) {
    row_matrices_.reserve(kInputs * kFingerprintBytes);
    for (const Element& factor : factors) {
      for (const uint8_t byte : factor) row_matrices_.push_back(bit_matrices()[byte]);
    }
    return;
  }
#endif
  std::vector<uint8_t> coefficients;
  coefficients.reserve(kInputs * kFingerprintBytes);
  for (size_t j = 0; j < kFingerprintBytes; ++j) {
    for (const Element& factor : factors) coefficients.push_back(factor[j]);
  }
  rows_ = Combination(coefficients, kInputs);
}

void Fingerprinter::add_chunk(const std::byte* chunk, Sum& total) const {
#ifdef __x86_64__
  if (is_fast_) {
    return add_chunk_fast(row_matrices_.data(), chunk, kChunkRows, total.bytes.data());
  }
#endif
  Sum sum;
  std::array<const std::byte*, kInputs> inputs;
  std::array<std::byte*, kFingerprintBytes> outputs;
  for (size_t i = 0; i < kFingerprintBytes; ++i) {
    inputs[i] = total.bytes.data() + i * kRowBytes;
    outputs[i] = sum.bytes.data() + i * kRowBytes;
  }
  for (size_t i = 0; i < kChunkRows; ++i) inputs[kFingerprintBytes + i] = chunk + i * kRowBytes;
  rows_.apply(inputs, outputs, kRowBytes);
  total = sum;
}

Fingerprint Fingerprinter::close(const Sum& total) const {
#ifdef __x86_64__
  if (is_fast_) return close_fast(closing_vectors_.data(), total.bytes);
#endif
  // The vectors of all bytes with bit b set, added up; then 2^b times that.
  using Halves = std::array<uint64_t, 2>;
  std::array<Halves, 8> sums{};
  for (size_t n = 0; n < total.bytes.size(); ++n) {
    const auto vector = std::bit_cast<Halves>(closing_vectors_[n]);
    const auto byte = static_cast<uint64_t>(total.bytes[n]);
    for (size_t b = 0; b < sums.size(); ++b) {
      const uint64_t mask = 0 - (byte >> b & 1);
      sums[b][0] ^= vector[0] & mask;
      sums[b][1] ^= vector[1] & mask;
    }
  }
  Fingerprint closed{};
  for (size_t b = 0; b < sums.size(); ++b) {
    const auto sum = std::bit_cast<Element>(sums[b]);
    for (size_t i = 0; i < closed.size(); ++i) {
      closed[i] ^= gf_multiply(static_cast<uint8_t>(1u << b), sum[i]);
    }
  }
  return closed;
}

Fingerprint Fingerprinter::of(std::span<const std::byte> block) const {
  Sum total{};
  for (; block.size() >= kChunkBytes; block = block.subspan(kChunkBytes)) {
    add_chunk(block.data(), total);
  }
  if (!block.empty()) {
    std::array<std::byte, kChunkBytes> last{};
    std::ranges::copy(block, last.begin());
    add_chunk(last.data(), total);
  }
  return close(total);
}

}  // namespace elastripe::coding
