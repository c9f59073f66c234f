#include "proxy/etcd/http_calls.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "proxy/base/check.h"

namespace elastripe {

namespace {

constexpr size_t kMaxReplyBytes = 16 << 20;
constexpr int kLongestWait_ms = 1000;

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One request under way.
struct Transfer {
  HttpRequest request;
  HttpCalls::Done done;
  std::string body = {};
  bool is_complete = false;
  bool is_too_large = false;
  char reason[CURL_ERROR_SIZE] = {};
  std::unique_ptr<curl_slist, FreeList> headers = {};
  std::unique_ptr<CURL, FreeEasy> easy = {};  // uses all of the above
};

// What it does not take ends the transfer.
size_t append_body(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  transfer.is_too_large = transfer.body.size() + size * count > kMaxReplyBytes;
  if (transfer.is_too_large) return 0;
  transfer.body.append(data, size * count);
  const auto is_complete = transfer.request.is_complete;
  transfer.is_complete = is_complete != nullptr && is_complete(transfer.body);
  return transfer.is_complete ? 0 : size * count;
}

long milliseconds_until(TimePoint deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max<long>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 1);
}

bool prepare(Transfer& transfer, const HttpTls& tls) {
  CURL* const easy = transfer.easy.get();
  curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
  // Without it curl asks whether a large body may come, and waits.
  list = curl_slist_append(list, "Expect:");
  for (const std::string& header : transfer.request.headers) {
    list = curl_slist_append(list, header.c_str());
  }
  transfer.headers.reset(list);
  const long left = milliseconds_until(transfer.request.deadline);
  const auto set = [&](CURLoption option, auto value) {
    return curl_easy_setopt(easy, option, value) == CURLE_OK;
  };
  const auto file = [&](CURLoption option, const std::string& path) {
    return path.empty() || set(option, path.c_str());
  };
  bool is_set = set(CURLOPT_URL, transfer.request.url.c_str()) && set(CURLOPT_HTTPHEADER, list) &&
                set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_NOPROXY, "*") &&
                set(CURLOPT_NOSIGNAL, 1L) && set(CURLOPT_POST, 1L) &&
                set(CURLOPT_POSTFIELDSIZE, static_cast<long>(transfer.request.body.size())) &&
                set(CURLOPT_POSTFIELDS, transfer.request.body.c_str()) &&
                set(CURLOPT_TIMEOUT_MS, left) &&
                set(CURLOPT_CONNECTTIMEOUT_MS, std::max(left / 2, 1L)) &&
                set(CURLOPT_WRITEFUNCTION, append_body) && set(CURLOPT_WRITEDATA, &transfer) &&
                set(CURLOPT_ERRORBUFFER, transfer.reason);
  // By HTTP/2 all calls have one connection, and one that falls silent is used again and again.
  is_set = is_set && set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // A name server that is silent holds up only the calls that ask it.
  is_set = is_set && set(CURLOPT_QUICK_EXIT, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
  // Else a CA file that is replaced counts only a day later. A libcurl that has no such cache
  // refuses it.
  set(CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
  // Else the system's CAs are believed besides.
  if (!tls.ca.empty()) is_set = is_set && set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  return is_set && file(CURLOPT_CAINFO, tls.ca) && file(CURLOPT_SSLCERT, tls.certificate) &&
         file(CURLOPT_SSLKEY, tls.key);
}

Result<HttpReply> reply_of(Transfer& transfer, CURLcode code) {
  HttpReply reply;
  curl_easy_getinfo(transfer.easy.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  const bool has_begun = transfer.request.is_complete != nullptr && reply.status != 0;
  reply.is_whole = code == CURLE_OK || transfer.is_complete;
  if (reply.is_whole || (code == CURLE_OPERATION_TIMEDOUT && has_begun)) {
    reply.body = std::move(transfer.body);
    return reply;
  }
  if (transfer.is_too_large) return fail(ErrorCode::kUnavailable, "its answer is too large");
  const std::string reason = transfer.reason[0] != 0 ? transfer.reason : curl_easy_strerror(code);
  return fail(ErrorCode::kUnavailable, "{}", reason);
}

}  // namespace

class HttpCalls::Thread {
 public:
  explicit Thread(HttpTls tls) : tls_(std::move(tls)) {
    static std::once_flag is_ready;
    std::call_once(is_ready, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    multi_ = curl_multi_init();
    ELASTRIPE_CHECK(multi_ != nullptr, "out of memory");
    thread_ = std::thread([this] { run(); });
  }
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    for (auto& [easy, transfer] : transfers_) curl_multi_remove_handle(multi_, easy);
    transfers_.clear();
    curl_multi_cleanup(multi_);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void post(HttpRequest request, Done done) {
    {
      const std::lock_guard lock(mutex_);
      posted_.emplace_back(std::move(request), std::move(done));
    }
    curl_multi_wakeup(multi_);
  }

 private:
  void run() {
    // Signals are for the main thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (begin_posted()) {
      int running = 0;
      curl_multi_perform(multi_, &running);
      finish_ended();
      curl_multi_poll(multi_, nullptr, 0, kLongestWait_ms, nullptr);
    }
  }

  // False: it is over.
  bool begin_posted() {
    std::vector<std::pair<HttpRequest, Done>> posted;
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) return false;
      posted.swap(posted_);
    }
    for (auto& [request, done] : posted) begin(std::move(request), std::move(done));
    return true;
  }

  void begin(HttpRequest request, Done done) {
    auto transfer = std::make_unique<Transfer>(
        Transfer{.request = std::move(request), .done = std::move(done)});
    transfer->easy.reset(curl_easy_init());
    CURL* const easy = transfer->easy.get();
    if (easy == nullptr || !prepare(*transfer, tls_) ||
        curl_multi_add_handle(multi_, easy) != CURLM_OK) {
      return transfer->done(fail(ErrorCode::kUnavailable, "out of memory"));
    }
    transfers_[easy] = std::move(transfer);
  }

  void finish_ended() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const easy = message->easy_handle;
      const CURLcode code = message->data.result;  // the message goes with the handle
      curl_multi_remove_handle(multi_, easy);
      const auto transfer = std::move(transfers_.extract(easy).mapped());
      transfer->done(reply_of(*transfer, code));
    }
  }

  const HttpTls tls_;
  CURLM* multi_ = nullptr;
  std::map<CURL*, std::unique_ptr<Transfer>> transfers_;  // of its own thread
  std::mutex mutex_;
  std::vector<std::pair<HttpRequest, Done>> posted_;  // guarded by mutex_
  bool is_over_ = false;                              // guarded by mutex_
  std::thread thread_;
};

HttpCalls::HttpCalls(HttpTls tls) : thread_(std::make_unique<Thread>(std::move(tls))) {}
HttpCalls::~HttpCalls() = default;

void HttpCalls::post(HttpRequest request, Done done) {
  thread_->post(std::move(request), std::move(done));
}

}  // namespace elastripe
