// Session: one client connection: bytes -> commands -> flows -> replies. Its parts:
//
//   Stream -> Input -> Pipeline -> Replies -> Stream
//             bytes    order       output
//
// It wires them, and ends a client that keeps others, or us, waiting.
#pragma once

#include "proxy/io/loop.h"
#include "proxy/io/stream.h"
#include "proxy/session/input.h"
#include "proxy/session/pipeline.h"
#include "proxy/session/replies.h"
#include "proxy/session/stall_watch.h"

namespace elastripe {

// Loop thread only. Owned by Sessions, which destroys it when it says that it has ended.
class Session : private TurnEnd, private Timer, private Stream::Owner, private Pipeline::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void ended(Session& session) = 0;  // destroys it
  };

  // `tls`: that of the socket, or null. `users`: as for Login.
  struct Client {
    Fd socket;
    TlsPtr tls;
    const Published<Users>* users = nullptr;
  };
  Session(Loop& loop, Client client, SessionContext& context, ReadScratch& scratch, Owner& owner);
  ~Session() override;

  // Takes no further command, answers those that it has, then ends.
  void drain();
  // Closes at once; ends when the running commands have.
  void abort();
  // Its context has other settings.
  void settings_changed() { on_timer(); }
  // Is told now and then whether others wait for memory; is cut if it keeps them waiting.
  struct Waiting {
    size_t for_reads = 0;
    size_t for_writes = 0;
    size_t for_lines = 0;
  };
  void yield(TimePoint now, const Waiting& all);
  bool waits_for_line() const { return input_.line_waits() || pipeline_.waits_for_keys(); }
  // The client has shown that it may come in, as far as it has to: TLS has come about, and it has
  // logged in.
  bool is_let_in() const { return stream_.has_shaken_hands() && input_.has_logged_in(); }

 private:
  void on_readable() override;
  void on_writable() override { TurnEnd::request_turn_end(); }
  void on_turn_end() override;
  void on_timer() override;
  void request_turn_end() override { TurnEnd::request_turn_end(); }
  void begin_value(Pipeline::Slot& slot) override { input_.begin_value(slot); }
  void value_asked() override;
  void command_ended(Pipeline::Slot& slot) override;

  void send_replies();
  void leave();
  void log_failed_logins();
  void watch_client();
  TimePoint let_in_until() const;
  void close();

  Loop& loop_;
  SessionContext& context_;
  Session::Owner& owner_;
  Stream stream_;
  Replies replies_;
  Pipeline pipeline_;
  Input input_;
  bool is_leaving_ = false;  // all has been said, and is yet on its way
  const TimePoint opened_at_;
  TimePoint last_activity_;
  TimePoint leaves_until_;
  StallWatch taking_;    // the client its replies
  StallWatch yielding_;  // the client what others wait for
};

}  // namespace elastripe
