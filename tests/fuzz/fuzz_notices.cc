// Notices that proxies leave for each other at the nodes (proxy/ops/decider/proxy_notices.h), of
// whatever build. What is read of one must be written so that another build reads the same, and,
// cut off anywhere or with more behind it, must not be more than that.
#include "proxy/base/check.h"
#include "proxy/ops/decider/proxy_notices.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/support/notices.h"

using namespace elastripe;
using namespace elastripe::decider;

bool fuzz::accepts(std::string_view input) {
  const auto notice = decode_notice(input);
  if (!notice) return false;
  const std::string text = encode(*notice);
  const auto again = decode_notice(text);
  CHECK(again.has_value());
  CHECK(again->index() == notice->index());
  CHECK(encode(*again) == text);
  // As a later build may write it.
  const auto later = decode_notice(std::string(input) + "more");
  CHECK(!later || later->index() == notice->index());
  return true;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> all;
  for (const ProxyNotice& notice : notices_of_all_kinds()) all.push_back(encode(notice));
  return all;
}
