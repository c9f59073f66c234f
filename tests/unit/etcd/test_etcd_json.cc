// Expected requests are as etcd's documents have them; answers are those of etcd 3.4.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "proxy/etcd/etcd_json.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

// With the revision and whatever follows the header.
std::string with_header(int revision, const std::string& rest = "") {
  return fmt::format(
      R"({{"header":{{"cluster_id":"15118495548433857066","member_id":"13668033151171901709",)"
      R"("revision":"{}","raft_term":"2"}}{}}})",
      revision, rest);
}
std::string result(const std::string& inner) { return R"({"result":)" + inner + "}"; }
std::string watch_line(int revision, const std::string& rest) {
  return result(with_header(revision, rest)) + "\n";
}

const std::string kToken = with_header(1, R"(,"token":"sYlYPPlJbHpUBoLz.12")");
const std::string kGrant = with_header(1, R"(,"ID":"4111120305441794053","TTL":"5")");
const std::string kKept = result(with_header(1, R"(,"ID":"4111120305441794055","TTL":"5")"));
const std::string kLeaseOver = result(with_header(1, R"(,"ID":"12345")"));
const std::string kWritten = with_header(
    2, R"(,"succeeded":true,"responses":[{"response_put":{"header":{"revision":"2"}}}])");
const std::string kNotWritten = with_header(2);
const std::string kPair =
    R"({"key":"L2UvZGVjaWRlcg==","create_revision":"2","mod_revision":"2","version":"1",)"
    R"("value":"eyJhIjoxfQ==","lease":"4111120305441794055"})";
const std::string kFound = with_header(2, R"(,"kvs":[)" + kPair + R"(],"count":"1")");
const std::string kNothingFound = with_header(2);
const std::string kBegun = watch_line(1, R"(,"created":true)");
const std::string kPut = watch_line(2, R"(,"events":[{"kv":)" + kPair + "}]");
const std::string kDeleted = watch_line(
    3, R"(,"events":[{"type":"DELETE","kv":{"key":"L2UvZGVjaWRlcg==","mod_revision":"3"}}])");
const std::string kCompacted = watch_line(9, R"(,"canceled":true,"compact_revision":"7")");
const std::string kForbidden = watch_line(
    2, R"(,"created":true,"canceled":true,"cancel_reason":"etcdserver: permission denied")");
const std::string kRefusal = R"({"error":"etcdserver: requested lease not found",)"
                             R"("message":"etcdserver: requested lease not found","code":5})";
const std::string kStreamRefusal =
    R"({"error":{"grpc_code":16,"http_code":401,"message":"etcdserver: invalid auth token",)"
    R"("http_status":"Unauthorized"}})";

// What a parser made of an answer, as text; empty: nothing.
std::string shown(const etcd::KeyValue& pair) {
  return fmt::format("{}={} lease {} at {}", pair.key, pair.value, pair.lease, pair.revision);
}
std::string shown(const std::optional<std::string>& token) { return token.value_or(""); }
std::string shown(const std::optional<etcd::Lease>& lease) {
  return lease ? fmt::format("{} for {} ns", lease->id, lease->ttl.count()) : "";
}
std::string shown(const std::optional<etcd::Revision>& revision) {
  return revision ? std::to_string(*revision) : "";
}
std::string shown(const std::optional<etcd::Found>& found) {
  if (!found) return "";
  std::string text = fmt::format("at {}:", found->revision);
  for (const etcd::KeyValue& pair : found->pairs) text += " " + shown(pair);
  return text;
}
std::string shown(const std::optional<etcd_json::Watched>& watched) {
  if (!watched) return "";
  std::string text =
      fmt::format("begun {} forgotten {} refusal '{}' at {}:", watched->has_begun,
                  watched->is_forgotten, watched->refusal, watched->changes.revision);
  for (const etcd::Change& change : watched->changes.changes) {
    text += (change.is_deletion ? " no " : " ") + shown(change.pair);
  }
  return text;
}
std::string shown(const etcd_json::Refusal& refusal) {
  return refusal.code == -1 ? "" : fmt::format("{} {}", refusal.code, refusal.message);
}

struct Parser {
  const char* name;
  std::string (*parse)(std::string_view);
};
const Parser kParsers[] = {
    {"token", [](std::string_view body) { return shown(etcd_json::parse_token(body)); }},
    {"grant", [](std::string_view body) { return shown(etcd_json::parse_grant(body)); }},
    {"keep_alive", [](std::string_view body) { return shown(etcd_json::parse_keep_alive(body)); }},
    {"find", [](std::string_view body) { return shown(etcd_json::parse_find(body)); }},
    {"write", [](std::string_view body) { return shown(etcd_json::parse_write(body)); }},
    {"refusal", [](std::string_view body) { return shown(etcd_json::parse_refusal(body)); }},
};
const std::string kAnswers[] = {kToken,      kGrant,     kKept,         kLeaseOver, kWritten,
                                kNotWritten, kFound,     kNothingFound, kBegun,     kPut,
                                kDeleted,    kCompacted, kForbidden,    kRefusal,   kStreamRefusal};

// As above, and that whoever reads it as it comes would stop for the same.
std::string watched(std::string_view lines, etcd::Revision since = 1) {
  const auto seen = etcd_json::parse_watch(lines, since);
  const bool is_told =
      !seen || seen->is_forgotten || !seen->refusal.empty() || !seen->changes.changes.empty();
  CAPTURE(lines);
  CHECK(etcd_json::is_told(lines) == is_told);
  return shown(seen);
}

const std::string kNoneSeen = "begun false forgotten false refusal '' at 1:";
const std::string kBegunSeen = "begun true forgotten false refusal '' at 1:";
const std::string kPutSeen =
    R"(begun true forgotten false refusal '' at 2: /e/decider={"a":1} lease 4111120305441794055 at 2)";
const std::string kDeletedSeen =
    R"(begun true forgotten false refusal '' at 3: /e/decider={"a":1} lease 4111120305441794055 at 2)"
    R"( no /e/decider= lease 0 at 3)";

}  // namespace

TEST_CASE("who logs in tells a name and a password, whatever characters they have") {
  CHECK(etcd_json::log_in("proxy", "secret") == R"({"name":"proxy","password":"secret"})");
  CHECK(etcd_json::log_in("", "a\"b\\\n") == R"({"name":"","password":"a\"b\\\n"})");
  CHECK(etcd_json::log_in("\xff", "p") == "{\"name\":\"\xef\xbf\xbd\",\"password\":\"p\"}");
}

TEST_CASE("a lease is asked for in whole seconds, rounded up") {
  CHECK(etcd_json::grant(5s) == R"({"TTL":"5"})");
  CHECK(etcd_json::grant(4001ms) == R"({"TTL":"5"})");
  CHECK(etcd_json::grant(5s + 1ns) == R"({"TTL":"6"})");
  CHECK(etcd_json::grant(1ns) == R"({"TTL":"1"})");
}

TEST_CASE("a lease is named by all digits of its number, as text") {
  CHECK(etcd_json::of_lease(4111120305441794053) == R"({"ID":"4111120305441794053"})");
  CHECK(etcd_json::of_lease(std::numeric_limits<int64_t>::max()) ==
        R"({"ID":"9223372036854775807"})");
}

TEST_CASE("a prefix is a range that ends before the first key without it") {
  CHECK(etcd_json::find("/e/") == R"({"key":"L2Uv","range_end":"L2Uw"})");
  CHECK(etcd_json::find("a\xff\xff") == R"({"key":"Yf//","range_end":"Yg=="})");
  CHECK(etcd_json::find("\x7f") == R"({"key":"fw==","range_end":"gA=="})");
}

TEST_CASE("a write compares the guard's revision, and puts all pairs if it is that") {
  CHECK(etcd_json::write({.guard = "/e/decider",
                          .guard_revision = 0,
                          .pairs = {{.key = "/e/decider",
                                     .value = R"({"a":1})",
                                     .lease = 4111120305441794055,
                                     .revision = 0}}}) ==
        R"({"compare":[{"key":"L2UvZGVjaWRlcg==","mod_revision":"0","result":"EQUAL",)"
        R"("target":"MOD"}],"success":[{"request_put":{"key":"L2UvZGVjaWRlcg==",)"
        R"("lease":"4111120305441794055","value":"eyJhIjoxfQ=="}}]})");
  // Without a lease none is named, and each pair is a request of its own.
  CHECK(etcd_json::write({.guard = "g",
                          .guard_revision = 4111120305441794055,
                          .pairs = {{.key = "a", .value = "b", .lease = 0, .revision = 0},
                                    {.key = "c", .value = "", .lease = 0, .revision = 0}}}) ==
        R"({"compare":[{"key":"Zw==","mod_revision":"4111120305441794055","result":"EQUAL",)"
        R"("target":"MOD"}],"success":[{"request_put":{"key":"YQ==","value":"Yg=="}},)"
        R"({"request_put":{"key":"Yw==","value":""}}]})");
}

TEST_CASE("a watch starts with the revision behind the one that is known") {
  CHECK(etcd_json::watch("/e/", 41) ==
        R"({"create_request":{"key":"L2Uv","range_end":"L2Uw","start_revision":"42"}})");
}

TEST_CASE("a token is what etcd gave") {
  CHECK(etcd_json::parse_token(kToken) == "sYlYPPlJbHpUBoLz.12");
}

TEST_CASE("a token that could not stand in a header is none") {
  for (const char* token :
       {R"("a\r\nb")", R"("a\nb")", R"("a b")", R"("\u0000")", R"("a\u007f")", R"("\u00e9")",
        R"("")", "5", "null", "true", R"(["a"])", R"({"a":"b"})", R"("a\t")"}) {
    CAPTURE(token);
    CHECK(shown(etcd_json::parse_token(with_header(1, fmt::format(R"(,"token":{})", token)))) ==
          "");
  }
  CHECK(etcd_json::parse_token(with_header(1)) == std::nullopt);
}

TEST_CASE("a granted lease has a number and a time") {
  const auto lease = etcd_json::parse_grant(kGrant);
  REQUIRE(lease.has_value());
  CHECK(lease->id == 4111120305441794053);
  CHECK(lease->ttl == 5s);
  CHECK(etcd_json::parse_grant(with_header(1, R"(,"ID":"1")")) == std::nullopt);
  CHECK(etcd_json::parse_grant(with_header(1, R"(,"TTL":"5")")) == std::nullopt);
  CHECK(etcd_json::parse_grant(with_header(1, R"(,"ID":"0","TTL":"5")")) == std::nullopt);
}

TEST_CASE("numbers are whole and fit in 64 bits, or the lease is none") {
  for (const char* number : {R"("9223372036854775808")",
                             R"("99999999999999999999")",
                             R"("-9223372036854775809")",
                             R"("1x")",
                             R"("x")",
                             R"(" 1")",
                             R"("1 ")",
                             R"("+1")",
                             R"("0x1")",
                             R"("1e3")",
                             R"("1.0")",
                             R"("")",
                             "99999999999999999999",
                             "1.5",
                             "1e3",
                             "true",
                             "null",
                             "[1]",
                             R"(["1"])",
                             R"({"a":1})"}) {
    CAPTURE(number);
    const auto with_id = with_header(1, fmt::format(R"(,"ID":{},"TTL":"5")", number));
    const auto with_ttl = with_header(1, fmt::format(R"(,"ID":"1","TTL":{})", number));
    CHECK(shown(etcd_json::parse_grant(with_id)) == "");
    CHECK(shown(etcd_json::parse_grant(with_ttl)) == "");
    CHECK(shown(etcd_json::parse_keep_alive(result(with_id))) == "");
    CHECK(shown(etcd_json::parse_keep_alive(result(with_ttl))) == "");
  }
  CHECK(shown(etcd_json::parse_grant(R"({"ID":"9223372036854775807","TTL":"1"})")) ==
        "9223372036854775807 for 1000000000 ns");
  CHECK(shown(etcd_json::parse_grant(R"({"ID":7,"TTL":1})")) == "7 for 1000000000 ns");
}

TEST_CASE("a time that nanoseconds can not hold is none") {
  for (const char* ttl : {"-1", "1000000001", "9223372036", "9223372036854775807"}) {
    CAPTURE(ttl);
    const auto body = with_header(1, fmt::format(R"(,"ID":"1","TTL":"{}")", ttl));
    CHECK(shown(etcd_json::parse_grant(body)) == "");
    CHECK(shown(etcd_json::parse_keep_alive(result(body))) == "");
  }
  CHECK(etcd_json::parse_grant(R"({"ID":"1","TTL":"1000000000"})")->ttl == 1'000'000'000s);
}

TEST_CASE("a lease that is kept alive has time, one that is over has none") {
  CHECK(shown(etcd_json::parse_keep_alive(kKept)) == "4111120305441794055 for 5000000000 ns");
  CHECK(shown(etcd_json::parse_keep_alive(kKept + "\n")) ==
        "4111120305441794055 for 5000000000 ns");
  CHECK(shown(etcd_json::parse_keep_alive(kLeaseOver)) == "12345 for 0 ns");
}

TEST_CASE("all keys of a range are found, with what they have") {
  CHECK(shown(etcd_json::parse_find(kFound)) ==
        R"(at 2: /e/decider={"a":1} lease 4111120305441794055 at 2)");
  CHECK(shown(etcd_json::parse_find(kNothingFound)) == "at 2:");
  CHECK(shown(etcd_json::parse_find(with_header(2, R"(,"kvs":[])"))) == "at 2:");
  // An empty value and no lease are left out.
  CHECK(shown(etcd_json::parse_find(with_header(
            9, R"(,"kvs":[{"key":"YQ==","mod_revision":"3"},{"key":"Yg==","value":"AP8=",)"
               R"("mod_revision":"4"}])"))) ==
        "at 9: a= lease 0 at 3 b=" + std::string("\0\xff", 2) + " lease 0 at 4");
}

TEST_CASE("an answer with one pair that is none finds nothing at all") {
  for (const char* kvs : {
           "null",
           "1",
           R"("kvs")",
           "{}",
           "[1]",
           "[null]",
           "[[]]",
           "[{}]",
           R"([{"key":"","mod_revision":"2"}])",          // an empty key
           R"([{"mod_revision":"2"}])",                   // none
           R"([{"key":5,"mod_revision":"2"}])",           // not text
           R"([{"key":["YQ=="],"mod_revision":"2"}])",    //
           R"([{"key":"YQ","mod_revision":"2"}])",        // no padding
           R"([{"key":"YR==","mod_revision":"2"}])",      // bits left over
           R"([{"key":"YQ==YQ==","mod_revision":"2"}])",  // padding inside
           R"([{"key":"Y Q=","mod_revision":"2"}])",      // a blank
           R"([{"key":"Y_-=","mod_revision":"2"}])",      // the other alphabet
           R"([{"key":"====","mod_revision":"2"}])",      // nothing but padding
           R"([{"key":"YQ==","value":"Y","mod_revision":"2"}])",
           R"([{"key":"YQ==","value":"!!!!","mod_revision":"2"}])",
           R"([{"key":"YQ=="}])",                      // never written
           R"([{"key":"YQ==","mod_revision":"0"}])",   //
           R"([{"key":"YQ==","mod_revision":"-2"}])",  //
           R"([{"key":"YQ==","mod_revision":"x"}])",   //
           R"([{"key":"YQ==","mod_revision":2.5}])",   //
           R"([{"key":"YQ==","mod_revision":[2]}])",   //
           R"([{"key":"YQ==","mod_revision":"9223372036854775808"}])",
           R"([{"key":"YQ==","mod_revision":"2","lease":"x"}])",
           R"([{"key":"YQ==","mod_revision":"2","lease":{}}])",
           R"([{"key":"YQ==","mod_revision":"2","lease":"9223372036854775808"}])",
       }) {
    CAPTURE(kvs);
    CHECK(shown(etcd_json::parse_find(with_header(2, fmt::format(R"(,"kvs":{})", kvs)))) == "");
    // Beside a good one, too.
    if (std::string_view(kvs).starts_with("[")) {
      const std::string two = "[" + kPair + "," + (kvs + 1);
      CHECK(shown(etcd_json::parse_find(with_header(2, R"(,"kvs":)" + two))) == "");
      CHECK(shown(etcd_json::parse_find(with_header(2, R"(,"kvs":[)" + kPair + "]"))) != "");
    }
  }
}

TEST_CASE("what has no revision of the store is no answer to a find or a write") {
  for (const char* header :
       {R"({})", R"({"header":null})", R"({"header":2})", R"({"header":"2"})",
        R"({"header":["revision","2"]})", R"({"header":{}})", R"({"header":{"revision":"0"}})",
        R"({"header":{"revision":"-2"}})", R"({"header":{"revision":"two"}})",
        R"({"header":{"revision":""}})", R"({"header":{"revision":2.5}})",
        R"({"header":{"revision":true}})", R"({"header":{"revision":["2"]}})",
        R"({"header":{"revision":"9223372036854775808"}})",
        R"({"header":{"revision":9223372036854775808}})",
        R"({"header":{"revision":99999999999999999999}})", R"({"revision":"2"})",
        R"([{"header":{"revision":"2"}}])", R"({"result":{"header":{"revision":"2"}}})"}) {
    CAPTURE(header);
    CHECK(shown(etcd_json::parse_find(header)) == "");
    CHECK(shown(etcd_json::parse_write(header)) == "");
    std::string done = header;
    done.insert(done.size() - 1, done == "{}" ? R"("succeeded":true)" : R"(,"succeeded":true)");
    if (header[0] == '{') CHECK(shown(etcd_json::parse_write(done)) == "");
  }
}

TEST_CASE("a write that was done has its revision, one that was not has none") {
  CHECK(etcd_json::parse_write(kWritten) == etcd::Revision{2});
  CHECK(etcd_json::parse_write(kNotWritten) == etcd::Revision{0});
  CHECK(etcd_json::parse_write(with_header(2, R"(,"succeeded":false)")) == etcd::Revision{0});
}

TEST_CASE("a write is never taken for done by what is not true") {
  for (const char* succeeded : {"1", R"("true")", "null", "[true]", R"({"true":true})", "0"}) {
    CAPTURE(succeeded);
    const auto written =
        etcd_json::parse_write(with_header(2, fmt::format(R"(,"succeeded":{})", succeeded)));
    CHECK(written.value_or(0) == 0);
  }
}

TEST_CASE("a watch tells that it has begun, then what has changed") {
  CHECK(watched("") == kNoneSeen);
  CHECK(watched(kBegun) == kBegunSeen);
  CHECK(watched(kBegun + kPut) == kPutSeen);
  CHECK(watched(kBegun + kPut + kDeleted) == kDeletedSeen);
  CHECK(watched("\n" + kBegun + "\n\n" + kPut + "\n" + kDeleted + "\n") == kDeletedSeen);
  // One that notes its progress has no events.
  CHECK(watched(kBegun + watch_line(8, "")) == kBegunSeen);
}

TEST_CASE("a watch may tell of many keys at once") {
  CHECK(watched(kBegun + watch_line(3, R"(,"events":[{"kv":)" + kPair +
                                           R"(},{"type":"DELETE","kv":{"key":"L2UvZGVjaWRlcg==",)"
                                           R"("mod_revision":"3"}}])")) == kDeletedSeen);
}

TEST_CASE("a watch is never behind what was known before") {
  const std::string begun = watch_line(41, R"(,"created":true)");
  CHECK(watched(begun, 41) == "begun true forgotten false refusal '' at 41:");
}

TEST_CASE("a store that is of a time before has forgotten what was known") {
  CHECK(etcd_json::parse_watch(kBegun, 41)->is_forgotten);
}

TEST_CASE("a watch that etcd can not do says why") {
  CHECK(watched(kBegun + kCompacted) == "begun true forgotten true refusal '' at 1:");
  CHECK(watched(kForbidden) ==
        "begun true forgotten false refusal 'etcdserver: permission denied' at 1:");
  // etcd 3.5 has a reason for both.
  CHECK(watched(watch_line(9, R"(,"canceled":true,"compact_revision":"7","cancel_reason":"gone")"))
            .starts_with("begun true forgotten true"));
  CHECK(watched(kBegun + watch_line(2, R"(,"canceled":false)")) == kBegunSeen);
}

TEST_CASE("an error is no line of a watch, and whoever waits for one goes on") {
  CHECK(watched(kStreamRefusal + "\n") == "");
  CHECK(watched(kRefusal + "\n") == "");
  CHECK(watched(kBegun + kStreamRefusal + "\n") == "");
  CHECK(shown(etcd_json::parse_refusal(kStreamRefusal + "\n" + kBegun)) ==
        "16 etcdserver: invalid auth token");
}

TEST_CASE("lines that are none of a watch are told as such") {
  for (const char* line :
       {"x",
        "{",
        "[]",
        "1",
        "null",
        R"("result")",
        "{}",
        R"({"results":{}})",
        "{\"result\":",
        R"({"result":{"events":{}}})",
        R"({"result":{"events":1}})",
        R"({"result":{"events":null}})",
        R"({"result":{"events":[1]}})",
        R"({"result":{"events":[{}]}})",
        R"({"result":{"events":[{"kv":null}]}})",
        R"({"result":{"events":[{"kv":[]}]}})",
        R"({"result":{"events":[{"type":"DELETE"}]}})",
        R"({"result":{"events":[{"kv":{"key":"YQ=="}}]}})",
        R"({"result":{"events":[{"kv":{"key":"YQ","mod_revision":"2"}}]}})",
        R"({"result":{"events":[{"kv":{"key":"YQ==","mod_revision":"2","lease":"z"}}]}})",
        R"({"result":{"events":[{"kv":{"key":"YQ==","mod_revision":"99999999999999999999"}}]}})",
        "\xff\xfe",
        "{\"result\":{\"created\":\"\xff\"}}"}) {
    CHECK(watched(std::string(line) + "\n") == "");
    CHECK(watched(kBegun + line + "\n") == "");
    // Until its end has come it may become one.
    CHECK(watched(kBegun + line) == kBegunSeen);
  }
}

TEST_CASE("a refusal has a code and a reason") {
  CHECK(shown(etcd_json::parse_refusal(kRefusal)) == "5 etcdserver: requested lease not found");
  CHECK(shown(etcd_json::parse_refusal(kStreamRefusal)) == "16 etcdserver: invalid auth token");
  CHECK(shown(etcd_json::parse_refusal(R"({"error":"only here","code":3})")) == "3 only here");
  CHECK(shown(etcd_json::parse_refusal(R"({"code":14})")) == "14 ");
}

TEST_CASE("what says no code is no refusal of etcd") {
  for (const char* body :
       {"", "<html>502 Bad Gateway</html>", "{}", "[]", "5", R"("code")", R"({"error":"x"})",
        R"({"error":{}})", R"({"error":[{"code":5}]})", R"({"code":"5"})", R"({"code":5.5})",
        R"({"code":null})", R"({"code":[5]})", R"({"error":{"grpc_code":"16"}})",
        R"({"code":99999999999999999999})", R"([{"code":5}])"}) {
    CAPTURE(body);
    CHECK(etcd_json::parse_refusal(body).code == -1);
  }
  for (const std::string& body : {kGrant, kFound, kBegun, kKept}) {
    CHECK(etcd_json::parse_refusal(body).code == -1);
  }
}

TEST_CASE("what is no JSON object is no answer") {
  for (const char* body : {"",
                           " ",
                           "\n",
                           "x",
                           "{",
                           "}",
                           "[",
                           "[]",
                           "{}",
                           "null",
                           "true",
                           "0",
                           "\"\"",
                           "{\"a\"}",
                           "<html></html>",
                           "404 page not found",
                           R"([{"ID":"1","TTL":"5"}])",
                           R"({"result":null})",
                           R"({"result":[]})",
                           R"({"result":"x"})",
                           R"({"result":5})",
                           R"({"result":[{"ID":"1"}]})",
                           "\xef\xbb\xbf",
                           "{\"token\":\"\xff\"}",
                           R"({"token":"a"} x)",
                           R"({"ID":"1","TTL":"5",})",
                           R"({'ID':'1','TTL':'5'})"}) {
    CAPTURE(body);
    for (const Parser& parser : kParsers) {
      CAPTURE(parser.name);
      CHECK(parser.parse(body) == "");
    }
  }
}

TEST_CASE("an answer that is cut off anywhere is none") {
  for (const std::string& answer : kAnswers) {
    const std::string_view body(answer.data(), answer.find_last_not_of('\n') + 1);
    CAPTURE(body);
    bool is_any = false;
    for (const Parser& parser : kParsers) {
      CAPTURE(parser.name);
      is_any |= parser.parse(body) != "";
      for (size_t bytes = 0; bytes < body.size(); ++bytes) {
        CAPTURE(bytes);
        REQUIRE(parser.parse(body.substr(0, bytes)) == "");
      }
    }
    // A watch is read by its lines, below.
    CHECK((is_any || answer.ends_with('\n')));
  }
}

TEST_CASE("of a watch that is cut off anywhere the whole lines are known") {
  const std::string lines = kBegun + kPut + kDeleted;
  for (size_t bytes = 0; bytes <= lines.size(); ++bytes) {
    CAPTURE(bytes);
    const size_t put = kBegun.size() + kPut.size();
    REQUIRE(watched(lines.substr(0, bytes)) == (bytes < kBegun.size()  ? kNoneSeen
                                                : bytes < put          ? kBegunSeen
                                                : bytes < lines.size() ? kPutSeen
                                                                       : kDeletedSeen));
  }
}

TEST_CASE("whatever bytes an answer has, what is read of it is possible") {
  constexpr uint32_t kSeed = 20260101;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);
  const auto check_pair = [](const etcd::KeyValue& pair) {
    return !pair.key.empty() && pair.revision > 0;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::string body = kAnswers[random() % std::size(kAnswers)];
    if (random() % 4 == 0) body = kBegun + kPut + kDeleted;
    for (uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      body[random() % body.size()] ^= static_cast<char>(1 + random() % 255);
    }
    CAPTURE(round, body);
    bool is_possible = true;
    if (const auto token = etcd_json::parse_token(body)) {
      is_possible &= !token->empty();
      for (const char c : *token) is_possible &= c > ' ' && c <= '~';
    }
    if (const auto lease = etcd_json::parse_grant(body)) {
      is_possible &= lease->id != 0 && lease->ttl > 0s;
    }
    if (const auto lease = etcd_json::parse_keep_alive(body)) {
      is_possible &= lease->id != 0 && lease->ttl >= 0s;
    }
    if (const auto found = etcd_json::parse_find(body)) {
      is_possible &= found->revision > 0;
      for (const etcd::KeyValue& pair : found->pairs) is_possible &= check_pair(pair);
    }
    if (const auto revision = etcd_json::parse_write(body)) is_possible &= *revision >= 0;
    if (const auto seen = etcd_json::parse_watch(body, 1)) {
      is_possible &= seen->changes.revision >= 1;
      for (const etcd::Change& change : seen->changes.changes) {
        is_possible &= check_pair(change.pair) && change.pair.revision <= seen->changes.revision;
      }
    }
    (void)etcd_json::parse_refusal(body);
    (void)watched(body);
    REQUIRE(is_possible);
  }
}

TEST_CASE("what is nested deeply is read, or none, and takes no stack") {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  CHECK_FALSE(etcd_json::parse_grant(R"({"a":)" + deep + "}"));
  CHECK(etcd_json::parse_refusal(R"({"error":{"a":)" + deep + "}}").code == -1);
  CHECK_FALSE(etcd_json::parse_find(with_header(2, R"(,"kvs":[{"value":)" + deep + "}]")));
}

TEST_CASE("a prefix that nothing comes behind ends with the store") {
  CHECK(etcd_json::find("\xff") == R"({"key":"/w==","range_end":"AA=="})");
}

TEST_CASE("a number that does not fit is none, with quotes or without") {
  CHECK_FALSE(etcd_json::parse_grant(R"({"ID":18446744073709551615,"TTL":"5"})"));
  CHECK(etcd_json::parse_grant(R"({"ID":5,"TTL":5})")->ttl == 5s);
  CHECK(etcd_json::parse_refusal(R"({"code":4294967301})").code == -1);
}

TEST_CASE("a field of a wrong type is not taken for one that is left out") {
  CHECK_FALSE(etcd_json::parse_find(
      with_header(2, R"(,"kvs":[{"key":"YQ==","mod_revision":"2","value":5}])")));
  for (const char* type : {"1", R"("OTHER")"}) {
    const std::string events =
        fmt::format(R"(,"events":[{{"type":{},"kv":{{"key":"YQ==","mod_revision":"3"}}}}])", type);
    CHECK_FALSE(etcd_json::parse_watch(watch_line(2, events), 1));
  }
  for (const char* told : {"5", "null", "[]"}) {
    CHECK_FALSE(etcd_json::parse_watch(result(told) + "\n", 1));
  }
  CHECK_FALSE(etcd_json::parse_watch(watch_line(2, R"(,"canceled":"true")"), 1));
  CHECK_FALSE(etcd_json::parse_write(with_header(2, R"(,"succeeded":"true")")));
}

TEST_CASE("a watch that has ended for no reason is not taken for a quiet one") {
  const std::string line = watch_line(3, R"(,"canceled":true)");
  CHECK(etcd_json::is_told(line));
  CHECK_FALSE(etcd_json::parse_watch(line, 1)->refusal.empty());
}
