// Sessions: the client connections of one worker.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "proxy/session/access.h"
#include "proxy/session/session.h"

namespace elastripe {

class Sessions : private Session::Owner, private Timer {
 public:
  Sessions(Loop& loop, ObjectOps& ops, Clock& clock, ServerStats& server, WorkerStats& stats,
           SessionSettings settings);
  ~Sessions() override;

  // Takes a connected, non-blocking socket. Above the limit of connections it takes the place of
  // the one that has waited longest to be let in; if there is none it is told so (in clear only)
  // and closed.
  void adopt(Fd socket, const ClientAccess& access);

  // Also of the connections that are open; those that are too many stay.
  void change_settings(const SessionSettings& settings);

  // No new sessions; the open ones answer the commands that they have, and end. `empty` is called
  // once, when none is left.
  void drain(std::function<void()> empty);
  // Closes all connections now.
  void abort();
  size_t size() const { return sessions_.size(); }

 private:
  // `newcomer`: where it is in newcomers_; their end once it has been let in. `has_place`: it
  // counts as one of the limit.
  using Newcomers = std::list<Session*>;
  struct Open {
    std::unique_ptr<Session> session;
    Newcomers::iterator newcomer;
    bool has_place = true;
  };

  void ended(Session& session) override;
  void on_timer() override;
  bool take_place();
  void forget_who_is_in();

  Loop& loop_;
  SessionContext context_;
  ReadScratch scratch_;
  bool draining_ = false;
  std::function<void()> empty_;
  std::unordered_map<Session*, Open> sessions_;
  Newcomers newcomers_;  // by their arrival; the first of them may have been let in since
};

}  // namespace elastripe
