#include <catch2/catch.hpp>
#include <string>

#include "proxy/memcache/data_block.h"

using elastripe::memcache::DataBlock;

namespace {

struct Outcome {
  std::string body;
  bool complete;
  bool valid;
  std::string rest;
};

// Reads a block of `value_bytes` out of two chunks.
Outcome read(uint64_t value_bytes, std::string_view first, std::string_view second) {
  DataBlock block(value_bytes);
  Outcome outcome{};
  for (std::string_view input : {first, second}) {
    outcome.body += block.take_body(input);
    if (block.body_left() == 0) block.take_terminator(input);
    outcome.rest += input;
  }
  outcome.complete = block.complete();
  outcome.valid = block.valid();
  return outcome;
}

}  // namespace

TEST_CASE("a data block is read alike at every split position", "[data_block]") {
  const std::string_view input = "hello\r\nget a\r\n";
  for (size_t split = 0; split <= input.size(); ++split) {
    CAPTURE(split);
    const Outcome outcome = read(5, input.substr(0, split), input.substr(split));
    CHECK(outcome.body == "hello");
    CHECK(outcome.complete);
    CHECK(outcome.valid);
    CHECK(outcome.rest == "get a\r\n");
  }
}

TEST_CASE("two bytes are taken for the terminator whatever they are", "[data_block]") {
  for (const std::string_view input :
       {"abcdef\r\n", "abc\n\nf\r\n", "abc\rxf\r\n", "abcx\nf\r\n"}) {
    for (size_t split = 0; split <= input.size(); ++split) {
      CAPTURE(input, split);
      const Outcome outcome = read(3, input.substr(0, split), input.substr(split));
      CHECK(outcome.body == "abc");
      CHECK(outcome.complete);
      CHECK_FALSE(outcome.valid);
      CHECK(outcome.rest == "f\r\n");
    }
  }
}

TEST_CASE("a block is incomplete until its terminator has come", "[data_block]") {
  CHECK_FALSE(read(3, "ab", "c").complete);
  CHECK_FALSE(read(3, "abc", "\r").complete);
  CHECK(read(0, "\r", "\n").complete);
  CHECK(DataBlock().complete());
}

TEST_CASE("bytes read past the input are counted", "[data_block]") {
  DataBlock block(100);
  std::string_view input = "0123456789";
  CHECK(block.take_body(input).size() == 10);
  block.body_received(90);
  CHECK(block.body_left() == 0);
  CHECK(block.left() == 2);
  input = "\r\nrest";
  block.take_terminator(input);
  CHECK(block.valid());
  CHECK(input == "rest");
}

TEST_CASE("swallowing drops exactly the declared bytes and the terminator", "[data_block]") {
  const std::string text = std::string(50, 'x') + "\r\nrest";
  for (size_t split = 0; split <= text.size(); ++split) {
    DataBlock block(50);
    std::string rest;
    for (std::string_view input :
         {std::string_view(text).substr(0, split), std::string_view(text).substr(split)}) {
      block.swallow(input);
      rest += input;
    }
    CHECK(block.complete());
    CHECK(rest == "rest");
  }
}
