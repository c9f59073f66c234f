// Stores an object, changes the middle of it, and takes it to less redundancy.
//
//   example [PROXY]...    # HOST:PORT, 127.0.0.1:11311 if none is named
#include <elastripe/admin.h>
#include <elastripe/pool.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace client = elastripe::client;

namespace {

// What a call answers, or the end of the program with its error.
template <class T>
T need(client::Result<T> result) {
  if (!result) {
    const client::Error& error = result.error();
    std::cerr << name(error.kind) << ": " << error.message
              << (error.may_have_taken_effect() ? " (it may be done)\n" : "\n");
    std::exit(EXIT_FAILURE);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> proxies(argv + 1, argv + argc);
  if (proxies.empty()) proxies.emplace_back("127.0.0.1:11311");
  client::Pool pool = need(client::Pool::create(proxies));

  need(pool.put("video", std::string(1'000'000, 'v')));
  need(pool.update("video", 500'000, "new bytes"));  // in the middle of it, all or none
  const client::Range part = need(pool.get_range("video", 500'000, 9));
  std::cout << part.bytes << " of " << part.object_bytes << "\n";

  const client::Value read = need(pool.get("video"));
  const auto first = pool.put("video", read.bytes(), {.cas = read.cas()});
  const auto second = pool.put("video", read.bytes(), {.cas = read.cas()});
  std::cout << (first ? "stored" : "not stored") << ", then "
            << (second ? "stored" : name(second.error().kind)) << "\n";

  client::Admin admin = need(client::Admin::create(proxies));
  std::cout << need(admin.object_info("video")).scheme << "\n";
  const client::Transition job = need(admin.transition(5, {.key = "video"}));
  const client::TransitionReport report = need(job.wait());
  std::cout << report.state << ", " << report.counts.at("transitioned") << " transitioned\n";
}
