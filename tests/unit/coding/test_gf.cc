#include <jerasure.h>
#include <reed_sol.h>

#include <cstdlib>
#include <memory>

#include "tests/unit/coding/support.h"

namespace elastripe::coding {

TEST_CASE("products are those of Jerasure's field") {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      if (gf_multiply(static_cast<uint8_t>(a), static_cast<uint8_t>(b)) !=
          galois_single_multiply(a, b, 8)) {
        FAIL(a << " * " << b);
      }
    }
  }
}

TEST_CASE("every square submatrix of small coding matrices is invertible") {
  for (const auto& [k, m] : {std::pair{6, 3}, {5, 4}, {10, 2}}) {
    const auto matrix = vandermonde_coding_matrix(k, m);
    REQUIRE(matrix.size() == static_cast<size_t>(k * m));
    for (uint32_t rows = 1; rows < (1u << m); ++rows) {
      for (uint32_t columns = 1; columns < (1u << k); ++columns) {
        if (std::popcount(rows) != std::popcount(columns)) continue;
        std::vector<uint8_t> square;
        for (int j = 0; j < m; ++j) {
          for (int i = 0; i < k; ++i) {
            if ((rows >> j & 1) && (columns >> i & 1)) {
              square.push_back(matrix[static_cast<size_t>(j * k + i)]);
            }
          }
        }
        std::vector<uint8_t> inverse;
        if (!invert(square, static_cast<size_t>(std::popcount(rows)), inverse)) FAIL("singular");
      }
    }
  }
}

TEST_CASE("a singular matrix is not inverted") {
  std::vector<uint8_t> inverse;
  CHECK_FALSE(invert(std::vector<uint8_t>{1, 2, 1, 2}, 2, inverse));
}

TEST_CASE("combine equals the sum of products at every length and odd offsets") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    const size_t width = 1 + random() % 20;
    const size_t height = 1 + random() % kMaxOutputs;
    std::vector<Bytes> in;
    std::vector<const std::byte*> inputs;
    std::vector<size_t> shift;
    for (size_t j = 0; j < width; ++j) {
      in.push_back(random_bytes(random, bytes + 16));
      shift.push_back(random() % 16);
      inputs.push_back(in[j].data() + shift[j]);
    }
    std::vector<uint8_t> coefficients;
    for (size_t i = 0; i < width * height; ++i) {
      coefficients.push_back(static_cast<uint8_t>(random() % 3 == 0 ? random() % 2 : random()));
    }
    std::vector<Bytes> out(height, Bytes(bytes + 16, kPoison));
    std::vector<std::byte*> outputs;
    for (Bytes& o : out) outputs.push_back(o.data() + 8);
    combine(coefficients, inputs, outputs, bytes);
    for (size_t i = 0; i < height; ++i) {
      Bytes expected(bytes + 16, kPoison);
      for (size_t at = 0; at < bytes; ++at) {
        uint8_t sum = 0;
        for (size_t j = 0; j < width; ++j) {
          sum ^=
              gf_multiply(coefficients[i * width + j], static_cast<uint8_t>(in[j][shift[j] + at]));
        }
        expected[8 + at] = static_cast<std::byte>(sum);
      }
      if (out[i] != expected) FAIL("length " << bytes << " output " << i);
    }
  }
}

TEST_CASE("combine of no inputs gives zeros") {
  Bytes out(40, kPoison);
  std::byte* output = out.data();
  combine({}, {}, std::span(&output, 1), out.size());
  CHECK(out == Bytes(40));
}

TEST_CASE("multiply_add equals the product at lengths 0 to 299 and odd offsets") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    const auto factor = static_cast<uint8_t>(bytes < 3 ? bytes : random());
    const Bytes in = random_bytes(random, bytes + 16);
    const Bytes before = random_bytes(random, bytes + 16);
    const size_t from = random() % 16;
    const size_t to = random() % 16;
    Bytes out = before;
    multiply_add(factor, std::span(in).subspan(from, bytes), std::span(out).subspan(to, bytes));
    Bytes expected = before;
    for (size_t i = 0; i < bytes; ++i) {
      expected[to + i] ^=
          static_cast<std::byte>(gf_multiply(factor, static_cast<uint8_t>(in[from + i])));
    }
    if (out != expected) FAIL("length " << bytes);
  }
}

#ifdef __x86_64__
TEST_CASE("the upper halves of the vector registers are clean after region work") {
  if (!__builtin_cpu_supports("avx")) return;
  const Bytes in(4096, kPoison);
  Bytes out(4096);
  const std::byte* const inputs[] = {in.data()};
  std::byte* const outputs[] = {out.data()};
  const uint8_t factors[] = {7};
  uint64_t upper[4][2] = {};
  const auto read_upper = [&upper] {
    asm volatile(
        "vextractf128 $1, %%ymm0, 0(%0)\n\t"
        "vextractf128 $1, %%ymm1, 16(%0)\n\t"
        "vextractf128 $1, %%ymm2, 32(%0)\n\t"
        "vextractf128 $1, %%ymm3, 48(%0)\n\t"
        :
        : "r"(upper)
        : "memory");
    uint64_t bits = 0;
    for (const auto& half : upper) bits |= half[0] | half[1];
    return bits;
  };
  combine(factors, inputs, outputs, in.size());
  CHECK(read_upper() == 0);
  multiply_add(7, in, out);
  CHECK(read_upper() == 0);
}
#endif

TEST_CASE("parities are those of Jerasure's encoder") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const char* text :
       {"rs:1,2", "rs:2,1", "rs:4,2", "rs:6,3", "rs:8,3", "rs:10,4", "rs:12,4", "rs:20,8"}) {
    for (const size_t block : {size_t{16}, size_t{48}, size_t{1040}, size_t{4096}}) {
      const Codec& codec = codec_of(text);
      const int k = codec.k_prime();
      const int m = codec.m();
      const SegmentGeometry geometry = geometry_of(codec, static_cast<size_t>(k) * block);
      REQUIRE(geometry.block_bytes() == block);
      Bytes segment = random_bytes(random, geometry.length());
      const std::vector<Bytes> shards = encode(geometry, State::kWide, segment);

      const std::unique_ptr<int, decltype(&std::free)> matrix(
          reed_sol_vandermonde_coding_matrix(k, m, 8), &std::free);
      std::vector<Bytes> parities(static_cast<size_t>(m), Bytes(block));
      std::vector<char*> data;
      std::vector<char*> coding;
      for (int i = 0; i < k; ++i) {
        data.push_back(reinterpret_cast<char*>(segment.data()) + static_cast<size_t>(i) * block);
      }
      for (Bytes& parity : parities) coding.push_back(reinterpret_cast<char*>(parity.data()));
      jerasure_matrix_encode(k, m, 8, matrix.get(), data.data(), coding.data(),
                             static_cast<int>(block));
      INFO(text << " block " << block);
      for (int j = 0; j < m; ++j) {
        CHECK(shards[static_cast<size_t>(k + j)] == parities[static_cast<size_t>(j)]);
      }
    }
  }
}

}  // namespace elastripe::coding
