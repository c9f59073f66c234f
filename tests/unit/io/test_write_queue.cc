#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "proxy/io/socket.h"
#include "proxy/io/write_queue.h"

namespace elastripe {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    here = Fd(fds[0]);
    there = Fd(fds[1]);
  }
  std::string drain() {
    std::string all;
    char part[65536];
    for (ssize_t got; (got = read(there.get(), part, sizeof part)) > 0;) {
      all.append(part, static_cast<size_t>(got));
    }
    return all;
  }
  Fd here, there;
};

TEST_CASE("copies and references leave in order through a socket that is often full") {
  Pair pair;
  WriteQueue queue;
  std::string expected;
  const Buffer large = Buffer::copy_of(std::string(200'000, 'L'));
  for (int i = 0; i < 20; ++i) {
    const std::string small(static_cast<size_t>(i * 300), static_cast<char>('a' + i));
    queue.copy(small);
    queue.reference(large, large);
    expected += small;
    expected += large.text();
  }
  REQUIRE(queue.bytes() == expected.size());
  std::string got;
  auto flushed = WriteQueue::Flush::kBlocked;
  int blocked = 0;
  while ((flushed = queue.flush(pair.here.get())) == WriteQueue::Flush::kBlocked) {
    ++blocked;
    got += pair.drain();
  }
  got += pair.drain();
  REQUIRE(flushed == WriteQueue::Flush::kDone);
  REQUIRE(blocked > 0);
  REQUIRE(got == expected);
  REQUIRE(queue.written_bytes() == expected.size());
  REQUIRE(queue.empty());
}

// Chunks may lie side by side in memory; each must live until it has left.
TEST_CASE("copies that fill many chunks arrive unchanged") {
  Pair pair;
  std::string expected;
  for (int i = 0; i < 200'000; ++i) expected += std::to_string(i);
  WriteQueue queue;
  for (size_t at = 0; at < expected.size(); at += 61) {
    queue.copy(std::string_view(expected).substr(at, 61));
  }
  std::string got;
  while (queue.flush(pair.here.get()) == WriteQueue::Flush::kBlocked) {
    got += pair.drain();
    // Takes the place of chunks that were freed too early.
    const Buffer other = Buffer::copy_of(std::string(16 << 10, 'X'));
  }
  got += pair.drain();
  REQUIRE(got == expected);
}

TEST_CASE("a broken socket is reported, not signalled") {
  Pair pair;
  pair.there.reset();
  WriteQueue queue;
  queue.copy(std::string_view("x"));
  REQUIRE(queue.flush(pair.here.get()) == WriteQueue::Flush::kBroken);
}

}  // namespace
}  // namespace elastripe
