// HttpEtcd: the EtcdClient of a proxy, over the JSON gateway of etcd's API v3 (etcd 3.4 or later).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/cluster/etcd_client.h"
#include "proxy/etcd/http_calls.h"
#include "proxy/io/loop.h"

namespace elastripe {

struct EtcdSettings {
  std::vector<std::string> endpoints;  // "http://HOST:PORT" or https, of etcd's members
  std::string user;                    // empty: nobody logs in
  std::string password_file;           // read when it logs in
  HttpTls tls;

  friend bool operator==(const EtcdSettings&, const EtcdSettings&) = default;
};

// Whether its files can be read, and used. kInvalid with the file and the reason. A proxy that runs
// waits for them instead: they are read for each connection and each login.
Result<void> check_files(const EtcdSettings& settings);

// Asks one member as long as that answers, then the next. Loop thread.
class HttpEtcd final : public etcd::EtcdClient {
 public:
  HttpEtcd(Loop& loop, EtcdSettings settings);
  ~HttpEtcd() override;  // no call is under way

  Task<Result<etcd::Lease>> grant(Duration ttl, TimePoint deadline) override;
  Task<Result<etcd::Lease>> keep_alive(etcd::LeaseId lease, TimePoint deadline) override;
  Task<Result<void>> revoke(etcd::LeaseId lease, TimePoint deadline) override;
  Task<Result<etcd::Found>> find(std::string prefix, TimePoint deadline) override;
  Task<Result<etcd::Revision>> write(etcd::Write write, TimePoint deadline) override;
  Task<Result<etcd::Changes>> changes(std::string prefix, etcd::Revision since,
                                      TimePoint deadline) override;
  // Ends all calls as cancelled, now and from now on.
  void cancel();

 private:
  struct Call;
  using IsComplete = bool (*)(std::string_view);
  Task<Result<HttpReply>> exchange(std::string url, std::string token, std::string body,
                                   TimePoint deadline, IsComplete is_complete);
  Task<Result<HttpReply>> ask(std::string path, std::string body, TimePoint deadline,
                              IsComplete is_complete = nullptr);
  Task<Result<std::string>> log_in(TimePoint deadline);
  void finish(uint64_t call, Result<HttpReply> reply);

  Loop& loop_;
  const EtcdSettings settings_;
  size_t endpoint_;
  std::string token_;  // empty: it has not logged in
  struct Refused {
    std::string password;
    TimePoint until;
    Error error;
  };
  std::optional<Refused> refused_;  // the last login
  bool is_cancelled_ = false;
  uint64_t next_call_ = 0;
  std::map<uint64_t, Call*> calls_;
  std::unique_ptr<HttpCalls> http_;
};

}  // namespace elastripe
