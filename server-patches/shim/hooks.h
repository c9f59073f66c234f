/* What memcached's patched sources call. Included at the end of memcached.h, which has no guard of
 * its own, so this is C and knows memcached's types.
 *
 * With elastripe_enabled false every hook leaves memcached as it is. */
#ifndef ELASTRIPE_SHIM_HOOKS_H
#define ELASTRIPE_SHIM_HOOKS_H

/* Set by main before memcached's main, never changed afterwards. */
extern bool elastripe_enabled;
/* Of a slab page; memcached's own 1 MiB unless the engine is on. */
extern unsigned elastripe_page_bytes;

/* Frames. A worker thread's connection that began with a frame has elastripe_try_read_frame as its
 * try_read_command for good. */
static inline bool elastripe_is_frame(char first_byte) { return (unsigned char)first_byte == 0xE5; }
int elastripe_try_read_frame(conn* c);
void elastripe_complete_frame(conn* c);
/* Whatever of a frame the connection has read, it will not read the rest. */
void elastripe_drop_frame(conn* c);
/* After a connection has waited, its state as conn_new_cmd has it: whether it has to be driven, as
 * no event will tell of what has been read of it. */
bool elastripe_goes_on(conn* c);
void elastripe_add_io_queue(LIBEVENT_THREAD* me);

/* The first thread serves control frames only (HELLO, HEARTBEAT, INSTALL_MAP, NOTICES), so that
 * none of them waits for a long data frame. Every connection begins there and leaves, for good,
 * with its first other bytes. True: nothing else is to be done here; *stop: another thread has the
 * connection. */
bool elastripe_leaves(conn* c, bool* stop);
LIBEVENT_THREAD* elastripe_control_thread(void);
LIBEVENT_THREAD* elastripe_next_worker(void);

/* A connection that has been accepted, and the last of it before its socket is closed. */
void elastripe_connected(conn* c);
void elastripe_disconnects(conn* c);

/* Stock commands: true if the command was refused, its value is being skipped, and nothing else is
 * to be done. `set_size` and `ms_size` are the tokens where set and ms have their length, or NULL.
 */
bool elastripe_refuse_ascii(conn* c, const char* command, const char* set_size,
                            const char* ms_size);
bool elastripe_refuse_binary(conn* c);

/* Around the life of a socket, for ThreadSanitizer: whoever opens one of the same number later, on
 * whatever thread, comes after its end. The kernel orders that. */
void elastripe_socket_closes(int sfd);
void elastripe_socket_opened(int sfd);

/* Once there is a context, before anybody connects: another one takes its place, of the same files.
 * Ends the process if they can not be used. */
void elastripe_tls_start(void);
/* Unix time at which the certificate ends; 0 without TLS. Any thread. */
int64_t elastripe_tls_valid_until(void);
/* TLS, with the engine on or off: as read(2) and write(2), which set errno; OpenSSL does not. Its
 * errors are the thread's: what one connection leaves would be taken for the next one's. */
ssize_t elastripe_tls_read(conn* c, void* bytes, size_t count);
ssize_t elastripe_tls_write(conn* c, const void* bytes, size_t count);
/* Bytes have been decrypted that nobody has read: no event tells of them. */
bool elastripe_tls_buffered(conn* c);
/* Tells the other side that this is the end, if it can. */
void elastripe_tls_end(SSL* ssl);
/* After SIGHUP, on the main thread: the certificates are read again, for new connections. */
void elastripe_reload(void);

void elastripe_stats(ADD_STAT add_stats, void* c);

/* Life cycle: main thread. Pause and resume are called around what needs all threads at rest. */
void elastripe_start(void);
void elastripe_stop(void);
void elastripe_pause(void);
void elastripe_resume(void);

#endif
