#include "coding/scheme.h"

#include <array>
#include <charconv>
#include <numeric>
#include <vector>

namespace elastripe::coding {
namespace {

struct LayoutName {
  std::string_view name;
  LayoutKind layout;
};

// The first name of a layout is the one that to_string prints.
constexpr std::array kLayoutNames = {
    LayoutName{"rs", LayoutKind::kRs},      LayoutName{"srs", LayoutKind::kSrs},
    LayoutName{"ers-1", LayoutKind::kErs1}, LayoutName{"ers-2", LayoutKind::kErs2},
    LayoutName{"ers", LayoutKind::kErs2},
};

// Comma-separated decimal numbers of at most 3 digits; empty when the text is anything else.
std::vector<int> parse_numbers(std::string_view text) {
  std::vector<int> numbers;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view digits = text.substr(0, comma);
    if (digits.empty() || digits.size() > 3 ||
        digits.find_first_not_of("0123456789") != std::string_view::npos) {
      return {};
    }
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    numbers.push_back(value);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

std::expected<void, std::string> check_numbers(LayoutKind layout, int k, int m, int k_prime) {
  const auto out_of_range = [](std::string_view what, int value, int low, int high) {
    return std::unexpected(std::string(what) + " is " + std::to_string(value) + ", must be " +
                           std::to_string(low) + ".." + std::to_string(high));
  };
  if (k < 1 || k > kMaxDataNodes) return out_of_range("k", k, 1, kMaxDataNodes);
  if (m < 1 || m > kMaxParities) return out_of_range("m", m, 1, kMaxParities);
  if (k_prime < 1 || k_prime > kMaxDataNodes) {
    return out_of_range("k'", k_prime, 1, kMaxDataNodes);
  }
  if (layout == LayoutKind::kRs) {
    if (k_prime != k) return std::unexpected("rs needs k' = k");
    return {};
  }
  if (k >= k_prime) {
    return std::unexpected("k is " + std::to_string(k) + " and k' is " + std::to_string(k_prime) +
                           ": k must be less than k'");
  }
  if (const int l = std::lcm(k, k_prime); l > kMaxBlocks) {
    return std::unexpected("lcm(k, k') is " + std::to_string(l) + " blocks, must be at most " +
                           std::to_string(kMaxBlocks));
  }
  return {};
}

}  // namespace

std::expected<Scheme, std::string> parse_scheme(std::string_view text) {
  const auto fail = [&](const std::string& why) {
    return std::unexpected("scheme '" + std::string(text.substr(0, 40)) + "': " + why);
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return fail("must be rep:N, rs:K,M, srs:K,M,KP, ers-1:K,M,KP or ers-2:K,M,KP");
  }
  const std::string_view name = text.substr(0, colon);
  const std::vector<int> numbers = parse_numbers(text.substr(colon + 1));

  LayoutKind layout = LayoutKind::kRs;
  int k = 1;
  int m = 0;
  int k_prime = 1;
  if (name == "rep") {
    if (numbers.size() != 1) return fail("rep needs one number, the copies: rep:N");
    if (numbers[0] < 2 || numbers[0] > kMaxParities + 1) {
      return fail("copies must be 2.." + std::to_string(kMaxParities + 1));
    }
    m = numbers[0] - 1;
  } else {
    bool known = false;
    for (const LayoutName& entry : kLayoutNames) {
      if (entry.name != name) continue;
      known = true;
      layout = entry.layout;
    }
    if (!known) return fail("unknown layout; use rep, rs, srs, ers-1 or ers-2");
    const bool rs = layout == LayoutKind::kRs;
    if (numbers.size() != (rs ? 2u : 3u)) {
      return fail(rs ? "needs two numbers, rs:K,M" : "needs three numbers, K,M,KP");
    }
    k = numbers[0];
    m = numbers[1];
    k_prime = rs ? k : numbers[2];
  }
  if (auto ok = check_numbers(layout, k, m, k_prime); !ok) return fail(ok.error());
  return Scheme{layout, static_cast<uint8_t>(k), static_cast<uint8_t>(m),
                static_cast<uint8_t>(k_prime)};
}

std::expected<void, std::string> validate(const Scheme& scheme) {
  if (static_cast<uint8_t>(scheme.layout) > static_cast<uint8_t>(LayoutKind::kErs2)) {
    return std::unexpected("unknown layout " + std::to_string(static_cast<int>(scheme.layout)));
  }
  return check_numbers(scheme.layout, scheme.k, scheme.m, scheme.k_prime);
}

std::string to_string(const Scheme& scheme) {
  if (scheme.layout == LayoutKind::kRs && scheme.k == 1) {
    return "rep:" + std::to_string(scheme.m + 1);
  }
  std::string text = "unknown";
  for (const LayoutName& entry : kLayoutNames) {
    if (entry.layout != scheme.layout) continue;
    text = entry.name;
    break;
  }
  text += ":" + std::to_string(scheme.k) + "," + std::to_string(scheme.m);
  if (scheme.layout != LayoutKind::kRs) text += "," + std::to_string(scheme.k_prime);
  return text;
}

}  // namespace elastripe::coding
