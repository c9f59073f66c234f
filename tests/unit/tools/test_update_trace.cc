#include <catch2/catch.hpp>
#include <string>

#include "tools/bench/update_trace.h"

namespace elastripe::bench {
namespace {

const std::string kHeader = "version,time,op,size,lbn\n";

std::string error_of(const std::string& text) {
  const auto trace = parse_block_trace(text, {});
  return trace ? "none" : trace.error();
}

}  // namespace

TEST_CASE("writes of a block trace are runs of sectors, and its reads are left out") {
  const auto trace = parse_block_trace(kHeader +
                                           "1,5633898,2a,512,42932745\n"
                                           "1,5633898,28,4096,7\r\n"
                                           "1,5633899,8a,6656,40409911\n"
                                           "1,5633899,2a,513,0",
                                       {});
  REQUIRE(trace);
  CHECK(trace->block_bytes == 512);
  CHECK(trace->writes == std::vector<BlockRun>{{42932745, 1}, {40409911, 13}, {0, 2}});
  CHECK(trace->left_out == 1);
  CHECK_FALSE(trace->synthetic_writes);
  CHECK(trace->written_bytes() == 16 * 512);
}

TEST_CASE("blocks that are written twice are touched once") {
  const auto trace = parse_block_trace(kHeader + "1,1,2a,1024,5\n1,1,2a,1024,6\n", {});
  REQUIRE(trace);
  CHECK(trace->written_bytes() == 2048);
  CHECK(trace->touched_bytes() == 1536);
}

TEST_CASE("columns of a block trace are found by their names") {
  const auto trace = parse_block_trace("lbn,op,size\n3,2a,512\n", {});
  REQUIRE(trace);
  CHECK(trace->writes == std::vector<BlockRun>{{3, 1}});
}

TEST_CASE("a bad line of a block trace is told by its number") {
  CHECK(error_of("") == "line 1 names no column op");
  CHECK(error_of("version,time,op,size\n") == "line 1 names no column lbn");
  const std::string good = kHeader + "1,1,2a,512,5\n";
  CHECK(error_of(good) == "none");
  CHECK(error_of(good + "1,1,2a,512\n") == "line 3 has 4 columns, and not 5: 1,1,2a,512");
  CHECK(error_of(good + "\n").starts_with("line 3 has 1 columns"));
  CHECK(error_of(good + "1,1,write,512,5\n").starts_with("line 3 has an op that is none of"));
  for (const char* size : {"0", "-1", "x", "", "512 ", "99999999999"}) {
    CAPTURE(size);
    CHECK(error_of(good + "1,1,2a," + size + ",5\n").starts_with("line 3 has no size from 1 to"));
  }
  for (const char* sector : {"", "-1", "5.5", "99999999999999999999", "9223372036854775807"}) {
    CAPTURE(sector);
    CHECK(error_of(good + good.substr(kHeader.size()) + "1,1,2a,512," + sector + "\n")
              .starts_with("line 4 has no lbn"));
  }
}

TEST_CASE("as much of a trace is taken as is asked for") {
  const auto trace = parse_block_trace(
      kHeader + "1,1,28,512,5\n1,1,2a,512,6\n1,1,2a,512,7\n1,1,28,512,5\nbad\n", {.writes = 2});
  REQUIRE(trace);
  CHECK(trace->writes == std::vector<BlockRun>{{6, 1}, {7, 1}});
  CHECK(trace->left_out == 1);
}

TEST_CASE("a key trace has big-endian keys, and which are written is synthetic") {
  using namespace std::string_literals;
  const auto all = parse_key_trace("\0\0\0\1\0\1\0\2\xFF\0\0\0"s, {.synthetic_writes = 100});
  REQUIRE(all);
  CHECK(all->block_bytes == 4096);
  CHECK(all->writes == std::vector<BlockRun>{{1}, {0x10002}, {0xFF000000}});
  CHECK(all->label() == ", synthetic: 100% writes");
  const std::string many(4 * 10'000, '\0');
  const auto some = parse_key_trace(many, {.synthetic_writes = 30});
  REQUIRE(some);
  CHECK(some->writes.size() + some->left_out == 10'000);
  CHECK(some->writes.size() > 2'800);
  CHECK(some->writes.size() < 3'200);
  const auto same = parse_key_trace(many, {.synthetic_writes = 30});
  CHECK(same->writes == some->writes);
}

TEST_CASE("a key trace that was cut is refused") {
  const auto cut = parse_key_trace(std::string(10, '\0'), {});
  REQUIRE_FALSE(cut);
  CHECK(cut.error() == "it ends within request 3, of 4 bytes each");
}

TEST_CASE("a run lies within an object") {
  CHECK(run_in_objects({3, 4}, 2, 10, 100) == BlockRun{3, 4});
  CHECK(run_in_objects({8, 4}, 2, 10, 100) == BlockRun{8, 2});
  CHECK(run_in_objects({13, 4}, 2, 10, 100) == BlockRun{13, 4});
  CHECK(run_in_objects({45, 9}, 2, 10, 100) == BlockRun{5, 5});
  CHECK(run_in_objects({45, 9}, 2, 10, 3) == BlockRun{5, 3});
}

}  // namespace elastripe::bench
