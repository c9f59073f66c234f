// What the sanitizers are not to report: memcached's own design, not ours.

extern "C" {

// Options that its main copies and never frees.
const char* __lsan_default_suppressions() { return "leak:memcached_main\n"; }

// By function, as seldom as possible: every frame of the engine's runs below memcached's event
// loop.
const char* __tsan_default_suppressions() {
  return
      // The clock's thread sets the seconds that all others read.
      "race_top:^clock_handler$\n"
      // `stats` counts what threads keep for themselves, without their locks.
      "race_top:^threadlocal_stats_aggregate$\n"
      // It clears one flag of an item, under the item's lock. Whoever holds a reference looks,
      // without it, at others, which stay as they are for as long as there is a reference.
      "race_top:^do_item_unlink$\n"
      // With --plain, it takes an item that a GET just finds, and puts it back.
      "race_top:^lru_pull_tail$\n"
      // With --plain, it comes by an item that a GET just finds, and marks as found.
      "race_top:^item_crawler_thread$\n";
}

}  // extern "C"
