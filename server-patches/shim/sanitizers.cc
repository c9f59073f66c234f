// What the sanitizers are not to report: memcached's own design, not ours.

extern "C" {

// Options that its main copies and never frees.
const char* __lsan_default_suppressions() { return "leak:memcached_main\n"; }

// It reads settings, statistics, the clock and item flags without locks on purpose.
const char* __tsan_default_suppressions() {
  return "race:/.memcached-src/\nmutex:/.memcached-src/\nsignal:/.memcached-src/\n"
         "thread:/.memcached-src/\n";
}

}  // extern "C"
