// SystemRandom: the Random of a thread, seeded by the kernel.
#pragma once

#include <random>

#include "proxy/async/clock.h"

namespace elastripe {

class SystemRandom : public Random {
 public:
  SystemRandom();
  uint64_t next() override { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace elastripe
