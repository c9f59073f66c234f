// HttpCalls: HTTP requests by libcurl, on a thread of its own: names are looked up and certificates
// checked there, so that nothing of it delays a loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/error.h"

namespace elastripe {

// Paths of PEM files; empty: the system's CAs, and no certificate of our own.
struct HttpTls {
  std::string ca;
  std::string certificate;
  std::string key;

  friend bool operator==(const HttpTls&, const HttpTls&) = default;
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "NAME: VALUE"
  std::string body;
  TimePoint deadline;
  // Whether an answer that goes on for ever has said all that is wanted. Null: it has an end.
  bool (*is_complete)(std::string_view so_far) = nullptr;
};

struct HttpReply {
  long status = 0;
  std::string body;
  bool is_whole = true;  // else the deadline came first, and `body` is what there was until then
};

class HttpCalls {
 public:
  // kUnavailable: nobody answered, and why.
  using Done = std::function<void(Result<HttpReply>)>;

  explicit HttpCalls(HttpTls tls);
  ~HttpCalls();  // those that are under way are not answered
  HttpCalls(const HttpCalls&) = delete;
  HttpCalls& operator=(const HttpCalls&) = delete;

  // POST, as JSON. `done` is called on the other thread. Any thread.
  void post(HttpRequest request, Done done);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace elastripe
