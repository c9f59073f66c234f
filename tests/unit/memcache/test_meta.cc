#include <catch2/catch.hpp>

#include "proxy/memcache/meta.h"
#include "proxy/memcache/parse.h"
#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

TEST_CASE("a meta get is its key, and everything behind it") {
  RequestParser parser;
  Request request;
  const ParseResult parsed = parser.parse("mg key  v o5 n7 \r\nmn\r\n", request);
  REQUIRE(parsed.status == ParseStatus::kRequest);
  REQUIRE(request.command == Command::kMetaGet);
  REQUIRE(request.key == "key");
  const auto get = parse_meta_flags(request.command, request.argument);
  REQUIRE(get.has_value());
  CHECK(get->value);
  CHECK(get->offset == 5);
  CHECK(get->length == 7);
  CHECK(get->answers.empty());
  CHECK_FALSE(get->quiet);
  const std::string with_nul("mg k\0y v\r\n", 10);
  CHECK(parser.parse(with_nul, request).refusal == replies::kBadLine);
  for (const char* line : {"mg\r\n", "mg \r\n"}) {
    CHECK(parser.parse(line, request).refusal == replies::kError);
  }
}

MetaFlags flags_of(Command command, std::string_view flags) {
  const auto result = parse_meta_flags(command, flags);
  INFO(flags << (result ? "" : std::string(": ").append(result.error().line)));
  REQUIRE(result.has_value());
  return *result;
}

Refusal error_of(Command command, std::string_view flags) {
  const auto result = parse_meta_flags(command, flags);
  INFO(flags);
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

TEST_CASE("flags are answered in the order in which they are asked for") {
  const auto get = [](std::string_view flags) { return flags_of(Command::kMetaGet, flags); };
  CHECK(get("s c k f t").answers == "sckft");
  const MetaFlags flags = get("Oabc q s v");
  CHECK(flags.answers == "Os");
  CHECK(flags.opaque == "abc");
  CHECK(flags.quiet);
  CHECK_FALSE(flags.offset);
  CHECK_FALSE(flags.length);
  CHECK(get("").answers.empty());
  CHECK(get("vv qx").value);
  CHECK(get("O").answers == "O");
}

TEST_CASE("all meta commands take all flags, whatever they mean to them") {
  for (const Command command :
       {Command::kMetaGet, Command::kMetaSet, Command::kMetaDelete, Command::kMetaArithmetic}) {
    const MetaFlags flags =
        flags_of(command, "C18446744073709551615 T-1 F4294967295 D2 J7 u P1 Lx b");
    CHECK(flags.cas == UINT64_MAX);
    CHECK(flags.exptime == -1);
    CHECK(flags.client_flags == UINT32_MAX);
    CHECK(flags.delta == 2);
    CHECK(flags.initial == 7);
    CHECK(flags.is_base64);
  }
  CHECK(flags_of(Command::kMetaSet, "N30").creates == 30);
  CHECK(flags_of(Command::kMetaArithmetic, "N0 t v").creates == 0);
  CHECK(flags_of(Command::kMetaArithmetic, "").delta == 1);
  CHECK(flags_of(Command::kMetaArithmetic, "N5 T6").creates == 6);
  CHECK(flags_of(Command::kMetaArithmetic, "T6 N5").creates == 5);
  CHECK(flags_of(Command::kMetaGet, "N5 T6 t").creates == 6);
  CHECK(flags_of(Command::kMetaGet, "T6 N5 t").creates == 5);
  CHECK(flags_of(Command::kMetaSet, "N5 T6").creates == 5);
}

TEST_CASE("a mode is one of those of its command") {
  for (const char mode : {'E', 'A', 'P', 'R', 'S'}) {
    CHECK(flags_of(Command::kMetaSet, std::string("M") + mode).mode == mode);
  }
  for (const char mode : {'I', '+', 'D', '-'}) {
    CHECK(flags_of(Command::kMetaArithmetic, std::string("M") + mode).mode == mode);
  }
  CHECK(error_of(Command::kMetaSet, "MI") == replies::kBadSetMode);
  CHECK(error_of(Command::kMetaSet, "Me") == replies::kBadSetMode);
  CHECK(error_of(Command::kMetaArithmetic, "MA") == replies::kBadArithmeticMode);
  CHECK(error_of(Command::kMetaSet, "M") == replies::kBadModeLength);
  CHECK(error_of(Command::kMetaSet, "MSS") == replies::kBadModeLength);
  CHECK(flags_of(Command::kMetaGet, "MX").mode == 'X');
}

TEST_CASE("flags of those who make values anew") {
  const MetaFlags get = flags_of(Command::kMetaGet, "h N30 l R-1 E5 u t");
  CHECK(get.answers == "hlt");
  CHECK(get.creates == 30);
  CHECK(get.recache == -1);
  CHECK(get.new_cas == 5);
  CHECK(get.is_no_use);
  CHECK(get.tells_use());
  const MetaFlags removal = flags_of(Command::kMetaDelete, "I x T9 E18446744073709551615");
  CHECK(removal.invalidates);
  CHECK(removal.empties);
  CHECK(removal.exptime == 9);
  CHECK(removal.new_cas == UINT64_MAX);
  CHECK_FALSE(removal.tells_use());
}

TEST_CASE("flags that are not known, come twice or are no numbers are refused") {
  const auto get = [](std::string_view flags) { return error_of(Command::kMetaGet, flags); };
  CHECK(get("a") == replies::kInvalidFlag);
  CHECK(get("Rx") == replies::kBadToken);
  CHECK(get("E-1") == replies::kBadToken);
  // An update of a part keeps what the flags are about.
  for (const char* flags : {"o0 E5", "o0 I"}) {
    CHECK(error_of(Command::kMetaSet, flags) == replies::kInvalidFlag);
  }
  CHECK(get("v v") == replies::kDuplicateFlag);
  CHECK(get("\x7f") == replies::kDuplicateFlag);  // as memcached
  CHECK(get("o1 o1") == replies::kDuplicateFlag);
  CHECK(flags_of(Command::kMetaGet, "T+60 o+1").exptime == 60);
  for (const char* flags : {"o", "n", "o-1", "o+-1", "o1x", "n18446744073709551616", "n0x10", "C",
                            "Cx", "T", "T9223372036854775808", "C-1"}) {
    CHECK(get(flags) == replies::kBadToken);
  }
  CHECK(get("F-1") == replies::kBadLine);
  CHECK(get("Jx") == replies::kBadInitial);
  CHECK(get("D-1") == replies::kBadMetaDelta);
  CHECK(flags_of(Command::kMetaGet, "n18446744073709551615").length == UINT64_MAX);
  CHECK(flags_of(Command::kMetaGet, "O" + std::string(31, 'o')).opaque.size() == 31);
  CHECK(get("O" + std::string(32, 'o')) == replies::kOpaqueTooLong);
  const std::string_view many = "v f s c k q O o1 n1 b C1 D1 F1 J1 L MX P T0";
  CHECK(get(many) == replies::kTooManyFlagsOfGet);
  CHECK(flags_of(Command::kMetaGet, many.substr(2)).mode == 'X');
  CHECK(error_of(Command::kMetaDelete, many) == replies::kTooManyFlags);
  CHECK(error_of(Command::kMetaSet, many.substr(2)) == replies::kTooManyFlags);
  CHECK(flags_of(Command::kMetaGet, "T4294967295").exptime == -1);
  CHECK(flags_of(Command::kMetaDebug, "b z z").is_base64);
  CHECK_FALSE(flags_of(Command::kMetaDebug, "z b").is_base64);
  // As memcached, whatever it is.
  for (const char* flags : {"a", "v v", "Dx", "Jx", "Ex"}) {
    CHECK(error_of(Command::kMetaArithmetic, flags) == replies::kBadFlag);
    CHECK(error_of(Command::kMetaDelete, flags) == replies::kBadFlag);
  }
}

TEST_CASE("a key may come in base64") {
  CHECK(decode_key(Command::kMetaGet, "AAEgCg==") == std::string("\0\1 \n", 4));
  for (const char* sent : {"key", "====", "a b=", ""}) {
    CHECK(decode_key(Command::kMetaGet, sent).error() == replies::kBadBase64);
    CHECK(decode_key(Command::kMetaDelete, sent).error() == replies::kBadFlag);
    CHECK(decode_key(Command::kMetaDebug, sent).error() == replies::kBadLine);
  }
}

TEST_CASE("a meta set is its key, the number of its bytes, and where they go") {
  RequestParser parser;
  Request request;
  const ParseResult parsed = parser.parse("ms key 5  o7 C12 c k Oabc q s \r\nhello\r\n", request);
  REQUIRE(parsed.status == ParseStatus::kRequest);
  CHECK(request.command == Command::kMetaSet);
  CHECK(is_storage(request.command));
  CHECK(is_write(request.command));
  CHECK(request.key == "key");
  CHECK(request.value_bytes == 5);
  const auto set = parse_meta_flags(request.command, request.argument);
  REQUIRE(set.has_value());
  CHECK(set->offset == 7);
  CHECK(set->cas == 12);
  CHECK(set->answers == "ckOs");
  CHECK(set->opaque == "abc");
  CHECK(set->quiet);
  CHECK_FALSE(flags_of(Command::kMetaSet, "o0").cas.has_value());
}

TEST_CASE("what a meta set is refused for leaves its value to be skipped") {
  RequestParser parser;
  Request request;
  CHECK(parser.parse("ms\r\n", request).refusal == replies::kError);
  for (const char* line : {"ms k\r\n", "ms k x o1\r\n", "ms k -1 o1\r\n"}) {
    CHECK(parser.parse(line, request).refusal == replies::kBadLine);
  }
  for (const char* line :
       {"ms k 5 a\r\n", "ms k 5 T\r\n", "ms k 5 MX\r\n", "ms k 5 b\r\n", "ms k 5 o1 MA\r\n"}) {
    const ParseResult result = parser.parse(line, request);
    CHECK(result.status == ParseStatus::kInvalid);
    CHECK(result.swallow_bytes == 7);
  }
}

TEST_CASE("md, ma and me have a key and flags") {
  RequestParser parser;
  Request request;
  for (const auto& [line, command] : {std::pair("md key  q C5 \r\n", Command::kMetaDelete),
                                      std::pair("ma key  q C5 \r\n", Command::kMetaArithmetic),
                                      std::pair("me key  q C5 \r\n", Command::kMetaDebug)}) {
    REQUIRE(parser.parse(line, request).status == ParseStatus::kRequest);
    CHECK(request.command == command);
    CHECK(request.key == "key");
    const bool is_debug = command == Command::kMetaDebug;
    if (!is_debug) CHECK(flags_of(request.command, request.argument).cas == 5);
    CHECK(is_meta(command));
    CHECK(is_write(command) == !is_debug);
  }
  CHECK(parser.parse("md\r\n", request).refusal == replies::kError);
}

}  // namespace
}  // namespace elastripe::memcache
