#include <catch2/catch.hpp>

#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"
#include "proxy/session/client_command.h"

using namespace elastripe::objects;
namespace replies = elastripe::memcache::replies;

namespace elastripe {
namespace {

class NoClock : public Clock {
 public:
  TimePoint now() const override { return {}; }
  uint64_t unix_ms() const override { return 1'000'000'000'000; }
  Task<bool> sleep_until(TimePoint) override { co_return true; }
};

// A command as it is taken, and what its responder says.
struct Taken {
  explicit Taken(std::string_view input) {
    memcache::RequestParser parser;
    memcache::Request request;
    result = parser.parse(input, request);
    command.assign(request, clock);
  }
  template <class Say>
  std::string said(Say say) const {
    memcache::Output output;
    say(command.responder(), output);
    return output.flatten();
  }
  std::string answer(const CommandOutcome& outcome) const {
    return said([&](const Responder& by, memcache::Output& to) { by.answer(to, outcome); });
  }
  std::string value(const Object& object) const {
    return said([&](const Responder& by, memcache::Output& to) {
      if (by.begin_value(to, command.key, object)) {
        to.append("abc");
        by.end_value(to);
      }
      by.end(to);
    });
  }
  std::string miss() const {
    return said([&](const Responder& by, memcache::Output& to) {
      by.miss(to, command.key);
      by.end(to);
    });
  }
  std::string error(const Error& error, std::string_view not_serving = "") const {
    return said(
        [&](const Responder& by, memcache::Output& to) { by.error(to, error, not_serving); });
  }

  NoClock clock;
  memcache::ParseResult result;
  ClientCommand command;
};

constexpr Object kObject{.flags = 5, .cas = 7, .size = 3, .range_bytes = 3, .exptime = 0};

}  // namespace

TEST_CASE("a classic command is answered by the classic lines", "[responder]") {
  const Taken set("set k 0 0 1\r\n");
  CHECK(set.answer(StoreOutcome::kStored) == "STORED\r\n");
  CHECK(set.answer(StoreOutcome::kExists) == "EXISTS\r\n");
  CHECK(set.answer(CounterOutcome{CounterStatus::kOk, 42}) == "42\r\n");
  CHECK(set.answer(DeleteOutcome{true}) == "DELETED\r\n");
  CHECK(set.answer(TouchOutcome{false}) == "NOT_FOUND\r\n");
  CHECK(set.answer(VersionOutcome{"1"}) == "VERSION 1\r\n");
  CHECK(set.answer(Accepted{}) == "OK\r\n");
  CHECK(set.answer(Noop{}) == "MN\r\n");
  CHECK(set.answer(replies::kBadDataChunk) == "CLIENT_ERROR bad data chunk\r\n");
  CHECK(set.answer(replies::kTooLarge) == set.error({ErrorCode::kTooLarge, "of a node"}));
}

TEST_CASE("statistics are told name by name, to their end", "[responder]") {
  const Taken stats("stats items\r\n");
  CHECK(stats.command.argument == "items");
  CHECK(stats.answer(StatPairs{{"a", "1"}, {"b", "two words"}}) ==
        "STAT a 1\r\nSTAT b two words\r\nEND\r\n");
  CHECK(stats.answer(StatPairs{}) == "END\r\n");
  CHECK(stats.answer(StatsReset{}) == "RESET\r\n");
  CHECK(stats.answer(replies::kError) == "ERROR\r\n");
}

TEST_CASE("a retrieval is answered in the dialect in which it was asked", "[responder]") {
  CHECK(Taken("get k\r\n").value(kObject) == "VALUE k 5 3\r\nabc\r\nEND\r\n");
  CHECK(Taken("gats 0 k\r\n").value(kObject) == "VALUE k 5 3 7\r\nabc\r\nEND\r\n");
  CHECK(Taken("get k\r\n").miss() == "END\r\n");
  CHECK(Taken("mg k v c Oq\r\n").value(kObject) == "VA 3 c7 Oq\r\nabc\r\n");
  CHECK(Taken("mg k s t\r\n").value(kObject) == "HD s3 t-1\r\n");
  CHECK(Taken("mg k k f\r\n").miss() == "EN kk\r\n");
  CHECK(Taken("mg k q v\r\n").miss().empty());
  CHECK(Taken("mg k v\r\n").error({ErrorCode::kLost, "gone"}) == "CLIENT_ERROR lost: gone\r\n");
}

TEST_CASE("the flags of mg say which bytes are read, or refuse it", "[responder]") {
  const Taken range("mg k v o2 n5\r\n");
  CHECK(range.command.range.offset == 2);
  CHECK(range.command.range.length == 5);
  CHECK_FALSE(range.command.refusal);
  CHECK(Taken("mg k s\r\n").command.range.length == 0);
  CHECK(Taken("get k\r\n").command.range.length == UINT64_MAX);
  const Taken refused("mg k v v\r\n");
  CHECK(refused.command.refusal == replies::kDuplicateFlag);
  CHECK(refused.answer(refused.command.refusal) == "CLIENT_ERROR duplicate flag\r\n");
}

TEST_CASE("a command that is used again keeps nothing of the one before", "[responder]") {
  NoClock clock;
  memcache::RequestParser parser;
  memcache::Request request;
  ClientCommand command;
  for (const char* line : {"mg k v v\r\n", "mg k s\r\n", "stats items\r\n", "get k\r\n"}) {
    (void)parser.parse(line, request);
    command.assign(request, clock);
  }
  CHECK_FALSE(command.refusal);
  CHECK(command.argument.empty());
  CHECK(command.range.length == UINT64_MAX);
  memcache::Output output;
  command.responder().end(output);
  CHECK(output.flatten() == "END\r\n");
}

TEST_CASE("a refused line is answered as a classic command, a binary request in its own way",
          "[responder]") {
  const Taken line("get\r\n");
  CHECK(line.answer(line.result.refusal) == "ERROR\r\n");
  const std::string header = "\x80\x01" + std::string(10, '\0') + "wxyz" + std::string(8, '\0');
  const Taken binary(header);
  CHECK(binary.result.refusal == replies::kBinaryProtocol);
  CHECK(binary.answer(binary.result.refusal) == memcache::refuse_binary(header));
  CHECK(binary.error({ErrorCode::kLost, ""}) == memcache::refuse_binary(header));
}

}  // namespace elastripe
