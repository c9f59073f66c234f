#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

using Json = nlohmann::json;

Json load(const std::string& name) {
  std::ifstream file(std::string(ELASTRIPE_TEST_DATA) + "/" + name);
  REQUIRE(file);
  return Json::parse(file);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[static_cast<int>(b >> 4)];
    text += "0123456789abcdef"[static_cast<int>(b & std::byte{15})];
  }
  return text;
}

std::string scheme_text(const std::string& layout, const Json& numbers) {
  std::string text = layout + ":" + std::to_string(numbers["k"].get<int>()) + "," +
                     std::to_string(numbers["m"].get<int>());
  if (layout != "rs") {
    const char* key = numbers.contains("kp") ? "kp" : "k_prime";
    text += "," + std::to_string(numbers[key].get<int>());
  }
  return text;
}

void check_matrix(const Codec& codec, const Json& matrix) {
  for (int j = 0; j < codec.m(); ++j) {
    for (int node = 0; node < codec.k_prime(); ++node) {
      CHECK(codec.coefficient(j, node) ==
            matrix[static_cast<size_t>(j)][static_cast<size_t>(node)].get<int>());
    }
  }
}

void check_cells(const Codec& codec, const Json& cells) {
  REQUIRE(cells.size() == static_cast<size_t>(codec.layout().blocks()));
  for (size_t b = 0; b < cells.size(); ++b) {
    const Json here{codec.layout().row_of(static_cast<int>(b)),
                    codec.layout().node_of(static_cast<int>(b))};
    CHECK(here == cells[b]);
  }
}

// `expected` is [codeword][parity], 16 bytes each in hexadecimal.
void check_parities(const Codec& codec, State state, const Json& expected) {
  const auto l = static_cast<size_t>(codec.layout().blocks());
  Bytes segment(16 * l);
  for (size_t i = 0; i < segment.size(); ++i) segment[i] = static_cast<std::byte>(i * 31 + 7);
  const SegmentGeometry geometry = geometry_of(codec, segment.size());
  REQUIRE(geometry.block_bytes() == 16);
  const std::vector<Bytes> shards = encode(geometry, state, segment);
  REQUIRE(expected.size() == static_cast<size_t>(codec.layout().codewords(state)));
  for (size_t c = 0; c < expected.size(); ++c) {
    REQUIRE(expected[c].size() == static_cast<size_t>(codec.m()));
    for (size_t j = 0; j < expected[c].size(); ++j) {
      const Bytes& parity = shards[static_cast<size_t>(codec.k_prime()) + j];
      REQUIRE(parity.size() == 16 * expected.size());
      CHECK(hex(std::span(parity).subspan(16 * c, 16)) == expected[c][j].get<std::string>());
    }
  }
}

}  // namespace

TEST_CASE("ers-1 and ers-2 give the bytes of the golden vectors in both states") {
  const Json golden = load("golden.json");
  REQUIRE(golden["cases"].size() >= 7);
  for (const Json& numbers : golden["cases"]) {
    for (const auto& [layout, key] : {std::pair{"ers-1", "ers1"}, {"ers-2", "ers2"}}) {
      const std::string text = scheme_text(layout, numbers);
      INFO(text);
      const Codec& codec = codec_of(text);
      CHECK(codec.layout().blocks() == numbers["l"].get<int>());
      check_matrix(codec, numbers["G"]);
      check_cells(codec, numbers[key]["pos"]);
      check_parities(codec, State::kNarrow, numbers[key]["pre"]);
      check_parities(codec, State::kWide, numbers[key]["post"]);
    }
  }
}

TEST_CASE("srs, rs and the cyclic ers-2 sets give the bytes of the model") {
  const Json cases = load("vectors.json");
  REQUIRE(cases.size() >= 19);
  for (const Json& numbers : cases) {
    const std::string text = scheme_text(numbers["layout"].get<std::string>(), numbers);
    INFO(text);
    const Codec& codec = codec_of(text);
    check_cells(codec, numbers["cells"]);
    for (int i = 0; i < codec.layout().stripes(); ++i) {
      const auto blocks = codec.layout().stripe_blocks(i);
      CHECK(Json(std::vector<int>(blocks.begin(), blocks.end())) ==
            numbers["stripes"][static_cast<size_t>(i)]);
    }
    if (!numbers.contains("matrix")) continue;
    check_matrix(codec, numbers["matrix"]);
    check_parities(codec, State::kNarrow, numbers["narrow"]);
    check_parities(codec, State::kWide, numbers["wide"]);
  }
}

}  // namespace elastripe::coding
