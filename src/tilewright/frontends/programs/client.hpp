// Replaces NVIDIA's runtime and driver libraries in a program: it sends each call to the process of the simulated GPU,
// and serves that process's requests until the result comes. Device memory is mapped in both, at one address.
//
// It does not know what calls mean. `library.py` generates one line for each implemented function of the vendor's
// headers: its number and its arguments as words. `protocol.py` is the other side; `messages.h` is what both share.
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "messages.h"

namespace tilewright {

// The environment variable with the descriptor through which connections are requested.
constexpr const char *DESCRIPTOR = "TILEWRIGHT_PROGRAM";

// The first message of a connection; it carries the descriptor of device memory.
struct Arena {
    uint64_t address, size_bytes;
};

struct Thread {
    int socket = -1;
    pid_t process = 0;
    ~Thread() {
        if (socket >= 0 && process == getpid()) close(socket);
        socket = -1; // destructors of the program may make later calls, through a new connection
    }
};

// An accepted launch. Launches that differ from it only in the values of parameters need no answer.
struct Ticket {
    const void *function;
    dim3 grid, block;
    size_t shared;
    void *stream;
    uint64_t number;
    uint32_t count, places[TW_MOST_WORDS][2]; // of each parameter among the packed ones: offset and bytes

    bool is_like(const Ticket &other) const {
        return function == other.function && stream == other.stream && shared == other.shared &&
               !memcmp(&grid, &other.grid, sizeof grid) && !memcmp(&block, &other.block, sizeof block);
    }
};

inline Ticket tickets_[TW_MOST_TICKETS], asked_;
inline int tickets_left_; // how many of them hold: none after calls that may change what a launch means
inline int connections_;  // with a second thread, every launch waits for its answer, which keeps the order of both
inline bool older_; // the program was built for CUDA 12 or 11, whose calls differ
inline thread_local Thread thread_;
inline Arena arena_;
inline int memory_ = -1;
inline pid_t mapped_in_;
inline pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;

[[noreturn]] inline void lost(const char *what) {
    fprintf(stderr, "tilewright: %s\n", what);
    fflush(nullptr);
    _exit(125);
}

inline void send_all(const void *data, size_t size) {
    const char *at = static_cast<const char *>(data);
    while (size) {
        ssize_t sent = send(thread_.socket, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EFAULT) lost("a call got an address that the program does not have");
        if (sent <= 0) lost("the simulated GPU has ended");
        at += sent;
        size -= sent;
    }
}

inline void receive_all(void *data, size_t size) {
    char *at = static_cast<char *>(data);
    while (size) {
        ssize_t got = recv(thread_.socket, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EFAULT) lost("a call got an address that the program does not have");
        if (got <= 0) lost("the simulated GPU has ended");
        at += got;
        size -= got;
    }
}

// Sends one descriptor with the bytes.
inline bool send_with(int socket, int descriptor) {
    char byte = 0;
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

inline int receive_with(int socket, void *data, size_t size) {
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {data, size};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != (ssize_t)size) return -1;
    int descriptor = -1;
    for (cmsghdr *at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at))
        if (at->cmsg_type == SCM_RIGHTS) memcpy(&descriptor, CMSG_DATA(at), sizeof descriptor);
    return descriptor;
}

inline void map_memory(int descriptor, Arena arena) {
    pthread_mutex_lock(&lock_);
    if (mapped_in_ != getpid() && memory_ < 0) {
        void *wanted = reinterpret_cast<void *>(arena.address);
        void *found = mmap(wanted, arena.size_bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, descriptor, 0);
        if (found != wanted) lost("the address of simulated memory is taken in this program");
        arena_ = arena;
        memory_ = descriptor;
    } else {
        close(descriptor);
    }
    mapped_in_ = getpid();
    pthread_mutex_unlock(&lock_);
}

// Each thread has its own connection, and so has a forked process.
inline void connect() {
    const char *text = getenv(DESCRIPTOR);
    if (!text) lost("this library is for programs that `tilewright run`, `check` or `profile` starts");
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) lost("no socket could be made");
    if (!send_with(atoi(text), ends[1])) lost("the simulated GPU has ended");
    close(ends[1]);
    Arena arena;
    int descriptor = receive_with(ends[0], &arena, sizeof arena);
    if (descriptor < 0) lost("the simulated GPU has ended");
    map_memory(descriptor, arena);
    thread_.socket = ends[0];
    thread_.process = getpid();
    __atomic_add_fetch(&connections_, 1, __ATOMIC_SEQ_CST);
}

inline void share(void *at, uint64_t offset, uint64_t size) {
    memcpy(reinterpret_cast<char *>(arena_.address) + offset, at, size);
    if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_, offset) == MAP_FAILED)
        lost("registered host memory could not be mapped");
}

// Data kept during this are in pages of their own: the pages of the heap may be among those that are exchanged.
inline void unshare(void *at, uint64_t size) {
    void *kept = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED) lost("out of memory");
    memcpy(kept, at, size);
    if (mremap(kept, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        lost("registered host memory could not be given back");
}

// Copies rows of `width` bytes from `source` to `target`; the steps are distances between rows.
inline void move_rows(const tw_head &head) {
    uint64_t steps[2];
    receive_all(steps, sizeof steps);
    char *target = reinterpret_cast<char *>(head.a), *source = reinterpret_cast<char *>(head.b);
    for (uint64_t row = 0; row < head.d; row++) memmove(target + row * steps[0], source + row * steps[1], head.c);
}

// Keeps a ticket for launches like the one that was asked for.
inline void keep_ticket(const tw_head &head) {
    Ticket ticket = asked_;
    ticket.number = head.a, ticket.count = (uint32_t)head.b;
    receive_all(ticket.places, ticket.count * sizeof *ticket.places);
    if (__atomic_load_n(&connections_, __ATOMIC_SEQ_CST) == 1 && tickets_left_ < TW_MOST_TICKETS)
        tickets_[tickets_left_++] = ticket;
}

inline void answer(const void *data, uint64_t size) {
    send_all(data, size);
}

// Serves requests of the simulated GPU's process until it sends the call's result.
inline uint64_t serve() {
    for (;;) {
        tw_head head;
        receive_all(&head, sizeof head);
        void *a = reinterpret_cast<void *>(head.a), *b = reinterpret_cast<void *>(head.b);
        switch (head.request) {
        case TW_RETURN: return head.a;
        case TW_READ: answer(a, head.b); break;
        case TW_WRITE: receive_all(a, head.b); break;
        case TW_MOVE: memmove(a, b, head.c); break;
        case TW_SET: memset(a, (int)head.b, head.c); break;
        case TW_ROWS: move_rows(head); break;
        case TW_TICKET: keep_ticket(head); break;
        case TW_SHARE: share(a, head.b, head.c); break;
        case TW_UNSHARE: unshare(a, head.b); break;
        case TW_TEXT: {
            uint64_t size = strlen(static_cast<char *>(a));
            answer(&size, sizeof size);
            answer(a, size);
            break;
        }
        case TW_PRINT: {
            char *text = static_cast<char *>(malloc(head.b + 1));
            receive_all(text, head.b);
            fwrite(text, 1, head.b, head.a == 2 ? stderr : stdout);
            free(text);
            break;
        }
        case TW_INVOKE: {
            using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t);
            uint64_t given = reinterpret_cast<Function>(a)(head.b, head.c, head.d);
            struct {
                uint32_t message, count;
                uint64_t value;
            } packet = {TW_ANSWERED, 1, given};
            send_all(&packet, sizeof packet);
            break;
        }
        default: lost("the simulated GPU asked for something unknown");
        }
    }
}

struct Words {
    uint64_t values[TW_MOST_WORDS];
    uint32_t count = 0;

    template <class T> void put(const T &value) {
        uint32_t taken = (sizeof value + 7) / 8;
        values[count + taken - 1] = 0;
        memcpy(values + count, &value, sizeof value);
        count += taken;
    }
};

// Sends a launch that has a ticket, and does not wait; false if it has none.
inline bool launched(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    if (thread_.socket < 0 || thread_.process != getpid() || __atomic_load_n(&connections_, __ATOMIC_SEQ_CST) != 1)
        return false;
    asked_ = {function, grid, block, shared, stream};
    for (int at = 0; at < tickets_left_; at++) {
        const Ticket &ticket = tickets_[at];
        if (!ticket.is_like(asked_)) continue;
        struct {
            uint32_t message, count;
            uint64_t values[TW_MOST_WORDS];
        } packet = {TW_LAUNCHED, 1, {ticket.number}};
        for (uint32_t i = 0; i < ticket.count; i++) {
            uint32_t offset = ticket.places[i][0], size = ticket.places[i][1];
            if (!arguments || !arguments[i]) return false;
            memcpy(reinterpret_cast<char *>(packet.values + 1) + offset, arguments[i], size);
            packet.count = 1 + (offset + size + 7) / 8;
        }
        send_all(&packet, 8 + 8 * packet.count);
        return true;
    }
    return false;
}

// Before calls that may change what a launch means, such as the start of a capture.
inline void end_tickets() {
    tickets_left_ = 0;
}

template <class... T> uint64_t call(uint32_t number, const T &...arguments) {
    if (thread_.socket < 0 || thread_.process != getpid()) connect();
    Words words;
    words.put(uint64_t(number));
    (words.put(arguments), ...);
    struct {
        uint32_t message, count;
        uint64_t values[TW_MOST_WORDS];
    } packet;
    packet.message = TW_CALLED;
    packet.count = words.count;
    memcpy(packet.values, words.values, 8 * words.count);
    send_all(&packet, 8 + 8 * words.count);
    return serve();
}

} // namespace tilewright
