// GF(2^8) with the polynomial 0x11D, the field of Jerasure, GF-Complete and ISA-L: matrices come
// from Jerasure, regions run on ISA-L. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coding/scheme.h"

namespace elastripe::coding {

// Regions that one call of combine may name: a codeword never needs more.
inline constexpr size_t kMaxInputs = kMaxDataNodes;
inline constexpr size_t kMaxOutputs = kMaxParities;

uint8_t gf_multiply(uint8_t a, uint8_t b);

// The m x k' coding matrix G of Jerasure's reed_sol_vandermonde_coding_matrix(k', m, 8), row after
// row: G[j * k' + node] is the coefficient of a data block on `node` in parity j. Every square
// submatrix is invertible; the first row and the first column are ones. Empty if Jerasure refuses.
std::vector<uint8_t> vandermonde_coding_matrix(int k_prime, int m);

// Inverts the n x n matrix, row after row. False if it is singular.
bool invert(std::span<const uint8_t> matrix, size_t n, std::vector<uint8_t>& inverse);

// outputs[i] = sum over j of coefficients[i * inputs.size() + j] * inputs[j], over regions of
// `bytes` bytes of any length and alignment. Outputs are overwritten and must not overlap inputs;
// no inputs give zeros. At most kMaxInputs inputs and kMaxOutputs outputs.
void combine(std::span<const uint8_t> coefficients, std::span<const std::byte* const> inputs,
             std::span<std::byte* const> outputs, size_t bytes);

// A matrix whose tables are made once, for what is combined by it over and over. Of any number of
// inputs and outputs up to 255. Immutable; any thread.
class Combination {
 public:
  Combination() = default;  // without outputs
  // coefficients[i * inputs + j], as of combine.
  Combination(std::span<const uint8_t> coefficients, size_t inputs);

  // Spans of as many regions as the matrix has columns and rows; they do not overlap.
  void apply(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
             size_t bytes) const;

 private:
  size_t inputs_ = 0;
  size_t outputs_ = 0;
  std::vector<unsigned char> tables_;
};

// output[i] ^= coefficient * input[i]. The spans have one length and do not overlap.
void multiply_add(uint8_t coefficient, std::span<const std::byte> input,
                  std::span<std::byte> output);

}  // namespace elastripe::coding
