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
  CHECK(set.answer(StoreStatus::kStored) == "STORED\r\n");
  CHECK(set.answer(StoreStatus::kExists) == "EXISTS\r\n");
  CHECK(set.answer(CounterOutcome{CounterStatus::kOk, 42}) == "42\r\n");
  CHECK(set.answer(RemoveStatus::kRemoved) == "DELETED\r\n");
  CHECK(set.answer(RemoveStatus::kNotFound) == "NOT_FOUND\r\n");
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

TEST_CASE("meta commands are answered by their codes, with what was asked for", "[responder]") {
  const StoreOutcome stored{StoreStatus::kStored, 12, 34};
  CHECK(Taken("ms k 1 c k s Oq f t\r\n").answer(stored) == "HD c12 kk s34 Oq\r\n");
  CHECK(Taken("ms k 1 q c\r\n").answer(stored).empty());
  CHECK(Taken("ms k 1 q c s\r\n").answer(StoreStatus::kExists) == "EX c0\r\n");
  CHECK(Taken("ms k 1 k\r\n").answer(StoreStatus::kNotStored) == "NS kk\r\n");
  CHECK(Taken("ms k 1 Oq\r\n").answer(StoreStatus::kNotFound) == "NF Oq\r\n");
  CHECK(Taken("md k k Oq\r\n").answer(RemoveStatus::kRemoved) == "HD kk Oq\r\n");
  CHECK(Taken("md k q\r\n").answer(RemoveStatus::kRemoved).empty());
  CHECK(Taken("md k q\r\n").answer(RemoveStatus::kNotFound) == "NF\r\n");
  CHECK(Taken("md k q\r\n").answer(RemoveStatus::kExists) == "EX\r\n");
  const CounterOutcome counter{CounterStatus::kOk, 42, 7, 1'000'000'100};
  CHECK(Taken("ma k\r\n").answer(counter) == "HD\r\n");
  CHECK(Taken("ma k t c v Oq k\r\n").answer(counter) == "VA 2 t100 c7 Oq kk\r\n42\r\n");
  CHECK(Taken("ma k q v\r\n").answer(counter).empty());
  CHECK(Taken("ma k q k\r\n").answer(CounterOutcome{CounterStatus::kNotFound}) == "NF kk\r\n");
  CHECK(Taken("ma k c\r\n").answer(CounterOutcome{CounterStatus::kExists}) == "EX\r\n");
  CHECK(Taken("ma k q\r\n").answer(CounterOutcome{CounterStatus::kNotNumber}) ==
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  CHECK(Taken("me k\r\n").value(kObject) == "ME k exp=-1 la=0 cas=7 fetch=no size=3\r\n");
  CHECK(Taken("me k\r\n").miss() == "EN\r\n");
  CHECK(Taken("mg k v c C7\r\n").value(kObject) == "HD c7\r\n");
  CHECK(Taken("mg k v c C8\r\n").value(kObject) == "VA 3 c7\r\nabc\r\n");
}

TEST_CASE("a key in base64 is told as it was sent", "[responder]") {
  const Taken get("mg AAEg v k b\r\n");
  CHECK(get.command.key == std::string("\0\1 ", 3));
  CHECK(get.value(kObject) == "VA 3 kAAEg b\r\nabc\r\n");
  CHECK(get.miss() == "EN kAAEg b\r\n");
  CHECK(Taken("md AAEg k b\r\n").answer(RemoveStatus::kRemoved) == "HD kAAEg b\r\n");
  CHECK(Taken("mg A b\r\n").command.refusal == replies::kBadBase64);
}

TEST_CASE("the flags of meta commands say what is done", "[responder]") {
  const auto verb = [](const char* line) { return Taken(line).command.verb; };
  CHECK(verb("ms k 1\r\n") == StoreVerb::kSet);
  CHECK(verb("ms k 1 MS C5\r\n") == StoreVerb::kCas);
  CHECK(verb("ms k 1 MR C5\r\n") == StoreVerb::kCas);
  CHECK(verb("ms k 1 MR\r\n") == StoreVerb::kReplace);
  CHECK(verb("ms k 1 ME C5\r\n") == StoreVerb::kAdd);
  CHECK(verb("ms k 1 MA C5\r\n") == StoreVerb::kAppend);
  CHECK(verb("ms k 1 MP\r\n") == StoreVerb::kPrepend);
  const Taken set("ms k 1 T30 F9 C5 N60\r\n");
  CHECK(set.command.exptime == 30);
  CHECK(set.command.flags == 9);
  CHECK(set.command.cas == 5);
  CHECK(set.command.creates == 60);
  CHECK_FALSE(set.command.is_part);
  CHECK(Taken("ms k 1 o0\r\n").command.is_part);
  CHECK(Taken("mg k T30 v\r\n").command.touches == 30);
  CHECK(Taken("mg k T30 v\r\n").command.writes());
  CHECK_FALSE(Taken("mg k v\r\n").command.writes());
  const Taken counter("ma k MD D3 J4 N5 T6 C7\r\n");
  CHECK_FALSE(counter.command.increments);
  CHECK(counter.command.delta == 3);
  CHECK(counter.command.initial == 4);
  CHECK(counter.command.creates == 6);  // the later one, as in memcached
  CHECK(counter.command.touches == 6);
  CHECK(counter.command.cas == 7);
  CHECK_FALSE(Taken("decr k 1\r\n").command.increments);
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
  const std::string header = "\x80\x55" + std::string(10, '\0') + "wxyz" + std::string(8, '\0');
  const Taken binary(header);
  CHECK(binary.result.refusal == replies::kUnknownOpcode);
  const auto response = [&](char status, const std::string& text) {
    return "\x81\x55" + std::string(5, '\0') + status + std::string(3, '\0') +
           static_cast<char>(text.size()) + "wxyz" + std::string(8, '\0') + text;
  };
  CHECK(binary.answer(binary.result.refusal) == response('\x81', "Unknown command"));
  CHECK(binary.error({ErrorCode::kLost, "gone"}) == response('\x86', "lost: gone"));
  CHECK(binary.error({ErrorCode::kLost, "gone"}, "no map") ==
        response('\x86', "not serving: no map"));
  CHECK(binary.error({ErrorCode::kNoSpace, ""}) == response('\x82', "Out of memory"));
  CHECK(binary.error({ErrorCode::kUnknownOutcome, "lost"}) ==
        response('\x86', "outcome unknown: lost"));
}

}  // namespace elastripe
