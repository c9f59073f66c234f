#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

#include "proxy/base/buffer.h"

using elastripe::Buffer;

TEST_CASE("an empty buffer has no bytes and no block", "[buffer]") {
  const Buffer buffer = Buffer::allocate(0);
  CHECK(buffer.empty());
  CHECK(buffer.data() == nullptr);
  CHECK(buffer.text().empty());
  CHECK(buffer.slice(0, 0).empty());
}

TEST_CASE("blocks start at a multiple of 64 bytes", "[buffer]") {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{4097}, size_t{1} << 20}) {
    const Buffer buffer = Buffer::allocate(size);
    CHECK(buffer.size() == size);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment == 0);
  }
}

TEST_CASE("blocks of all sizes have room for their bytes", "[buffer]") {
  for (const size_t size : std::initializer_list<size_t>{1, 64, 65, 6143, 6144, 6145, 1 << 20}) {
    Buffer buffer = Buffer::allocate(size);
    REQUIRE(buffer.size() == size);
    std::ranges::fill(buffer.mutable_bytes(), std::byte{7});
    const Buffer copy = Buffer::copy_of(buffer.bytes());
    REQUIRE(copy.text() == buffer.text());
    REQUIRE(buffer.is_unique());
  }
}

TEST_CASE("a slice keeps the bytes alive after the buffer is gone", "[buffer]") {
  Buffer slice;
  {
    const Buffer whole = Buffer::copy_of("hello, world");
    slice = whole.slice(7, 5).slice(1, 3);
  }
  CHECK(slice.text() == "orl");
}

TEST_CASE("copies share their bytes", "[buffer]") {
  Buffer first = Buffer::copy_of("abc");
  const Buffer second = first;
  first.mutable_data()[1] = std::byte{'x'};
  CHECK(second.text() == "axc");
  CHECK(first.data() == second.data());
}

TEST_CASE("what a block was taken from lives as long as its last copy or slice", "[buffer]") {
  auto source = std::make_shared<const int>(1);
  const std::weak_ptr<const int> watched = source;
  Buffer slice;
  {
    Buffer whole = Buffer::allocate(100, std::move(source));
    const Buffer copy = whole;
    slice = whole.slice(10, 20);
    whole = {};
    CHECK_FALSE(watched.expired());
  }
  CHECK_FALSE(watched.expired());
  slice = {};
  CHECK(watched.expired());
}
