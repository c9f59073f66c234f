#include "proxy/io/system_random.h"

#include <sys/random.h>

#include <array>

#include "proxy/base/check.h"

namespace elastripe {

SystemRandom::SystemRandom() {
  std::array<uint32_t, 16> entropy;
  CHECK(getrandom(entropy.data(), sizeof entropy, 0) == sizeof entropy, "no entropy");
  std::seed_seq seed(entropy.begin(), entropy.end());
  engine_.seed(seed);
}

}  // namespace elastripe
