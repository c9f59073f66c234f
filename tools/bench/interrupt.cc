#include "tools/bench/interrupt.h"

#include <signal.h>

#include <atomic>

namespace elastripe::bench {
namespace {

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted = true; }

}  // namespace

void watch_interrupts() {
  ::signal(SIGINT, on_interrupt);
  ::signal(SIGTERM, on_interrupt);
}

bool was_interrupted() { return interrupted; }

}  // namespace elastripe::bench
