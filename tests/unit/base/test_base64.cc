#include <catch2/catch.hpp>

#include "proxy/base/base64.h"

namespace elastripe {
namespace {

TEST_CASE("base64 of RFC 4648") {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"},
                                                         {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(base64(bytes) == text);
    CHECK(decode_base64(text) == bytes);
  }
}

TEST_CASE("any bytes come back") {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    CHECK(decode_base64(base64(bytes)) == bytes);
    bytes += static_cast<char>(i * 37);
  }
}

TEST_CASE("what is no base64 is refused") {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm 8", "Zm8\n", "Zm-_", "=Zg=", "Zh==", "Zm9="}) {
    INFO(text);
    CHECK_FALSE(decode_base64(text).has_value());
  }
}

}  // namespace
}  // namespace elastripe
