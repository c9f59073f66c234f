#include "coding/gf.h"

#include <isa-l/erasure_code.h>
#include <reed_sol.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "coding/require.h"

namespace elastripe::coding {
namespace {

constexpr size_t kTableBytes = 32;  // ISA-L's multiplication table of one coefficient

using Tables = std::array<std::array<unsigned char, kTableBytes>, 256>;

// One table a coefficient, made once: a call gathers the tables it needs, so nothing has to be kept
// for each scheme, state and set of erasures.
const Tables& tables() {
  static const Tables all = [] {
    Tables made;
    for (unsigned c = 0; c < made.size(); ++c) {
      gf_vect_mul_init(static_cast<unsigned char>(c), made[c].data());
    }
    return made;
  }();
  return all;
}

unsigned char* region(const std::byte* data) {  // ISA-L's interface has no const
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data));
}

// ISA-L returns with the upper halves of the vector registers in use, which makes all SSE code that
// runs after it in this thread slow: GF-Complete runs at half its speed.
#ifdef __x86_64__
__attribute__((target("avx"))) void zero_upper() { _mm256_zeroupper(); }
void leave_isal() {
  static const bool avx = __builtin_cpu_supports("avx") != 0;
  if (avx) zero_upper();
}
#else
void leave_isal() {}
#endif

}  // namespace

uint8_t gf_multiply(uint8_t a, uint8_t b) { return gf_mul(a, b); }

std::vector<uint8_t> vandermonde_coding_matrix(int k_prime, int m) {
  static std::mutex mutex;  // Jerasure fills its field tables on first use, without a lock
  const std::lock_guard lock(mutex);
  const std::unique_ptr<int, decltype(&std::free)> made(
      reed_sol_vandermonde_coding_matrix(k_prime, m, 8), &std::free);
  if (!made) return {};
  std::vector<uint8_t> matrix(static_cast<size_t>(k_prime) * static_cast<size_t>(m));
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint8_t>(made.get()[i]);
  return matrix;
}

bool invert(std::span<const uint8_t> matrix, size_t n, std::vector<uint8_t>& inverse) {
  require(matrix.size() == n * n);
  std::vector<uint8_t> work(matrix.begin(), matrix.end());  // gf_invert_matrix destroys its input
  inverse.resize(n * n);
  return n == 0 || gf_invert_matrix(work.data(), inverse.data(), static_cast<int>(n)) == 0;
}

void combine(std::span<const uint8_t> coefficients, std::span<const std::byte* const> inputs,
             std::span<std::byte* const> outputs, size_t bytes) {
  require(inputs.size() <= kMaxInputs && outputs.size() <= kMaxOutputs);
  require(coefficients.size() == inputs.size() * outputs.size());
  if (outputs.empty() || bytes == 0) return;
  if (inputs.empty()) {
    for (std::byte* output : outputs) std::memset(output, 0, bytes);
    return;
  }
  if (inputs.size() == 1 && std::ranges::all_of(coefficients, [](uint8_t c) { return c == 1; })) {
    for (std::byte* output : outputs) std::memcpy(output, inputs[0], bytes);
    return;
  }
  const Tables& all = tables();
  alignas(64) std::array<unsigned char, kMaxInputs * kMaxOutputs * kTableBytes> gathered;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    std::memcpy(&gathered[i * kTableBytes], all[coefficients[i]].data(), kTableBytes);
  }
  std::array<unsigned char*, kMaxInputs> from;
  std::array<unsigned char*, kMaxOutputs> to;
  std::ranges::transform(inputs, from.begin(), region);
  std::ranges::transform(outputs, to.begin(), region);
  const size_t piece = size_t{1} << 30;  // ISA-L's lengths are int
  for (size_t done = 0; done < bytes; done += piece) {
    const size_t now = std::min(piece, bytes - done);
    ec_encode_data(static_cast<int>(now), static_cast<int>(inputs.size()),
                   static_cast<int>(outputs.size()), gathered.data(), from.data(), to.data());
    for (size_t i = 0; i < inputs.size(); ++i) from[i] += now;
    for (size_t i = 0; i < outputs.size(); ++i) to[i] += now;
  }
  leave_isal();
}

Combination::Combination(std::span<const uint8_t> coefficients, size_t inputs)
    : inputs_(inputs),
      outputs_(inputs == 0 ? 0 : coefficients.size() / inputs),
      tables_(coefficients.size() * kTableBytes) {
  require(inputs_ <= 255 && outputs_ <= 255 && coefficients.size() == inputs_ * outputs_);
  for (size_t i = 0; i < coefficients.size(); ++i) {
    std::memcpy(&tables_[i * kTableBytes], tables()[coefficients[i]].data(), kTableBytes);
  }
}

void Combination::apply(std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs, size_t bytes) const {
  require(inputs.size() == inputs_ && outputs.size() == outputs_ && bytes <= (size_t{1} << 30));
  if (outputs.empty() || bytes == 0) return;
  std::array<unsigned char*, 255> from;
  std::array<unsigned char*, 255> to;
  std::ranges::transform(inputs, from.begin(), region);
  std::ranges::transform(outputs, to.begin(), region);
  ec_encode_data(static_cast<int>(bytes), static_cast<int>(inputs_), static_cast<int>(outputs_),
                 const_cast<unsigned char*>(tables_.data()), from.data(), to.data());
  leave_isal();
}

void multiply_add(uint8_t coefficient, std::span<const std::byte> input,
                  std::span<std::byte> output) {
  require(input.size() == output.size());
  // Not gf_vect_mad: it is wrong for regions shorter than 32 bytes.
  unsigned char* to = region(output.data());
  unsigned char* table = const_cast<unsigned char*>(tables()[coefficient].data());
  const size_t piece = size_t{1} << 30;
  for (size_t done = 0; done < input.size(); done += piece) {
    unsigned char* now_to = to + done;
    ec_encode_data_update(static_cast<int>(std::min(piece, input.size() - done)), 1, 1, 0, table,
                          region(input.data() + done), &now_to);
  }
  leave_isal();
}

}  // namespace elastripe::coding
