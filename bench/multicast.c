/* Datagrams to a multicast group. Usage: multicast send|receive GROUP PORT INTERFACE_ADDRESS SECONDS [RATE SIZE]
   `send` sends RATE datagrams of SIZE bytes a second. `receive` blocks in recv(2) and prints what came and what was lost of it, the time
   from sending to receiving (both on one machine) as median and 99th percentile, the processor time that each datagram took
   of this program, and of the whole machine. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
struct payload { long number, nanoseconds; };
static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
static int less(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}
/* Microseconds that all processors have worked. */
static double machine(void) {
    long user, nice, system, idle, wait, irq, softirq;
    FILE *file = fopen("/proc/stat", "r");
    if (!file || fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld", &user, &nice, &system, &idle, &wait, &irq, &softirq) != 7) exit(1);
    fclose(file);
    return (user + nice + system + irq + softirq) * 1e6 / sysconf(_SC_CLK_TCK);
}
static double own(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}
static void send_all(int s, struct sockaddr_in *to, double seconds, long rate, size_t size) {
    static char bytes[65536];
    struct payload *payload = (struct payload *)bytes;
    long start = now(), gap = 1000000000L / rate;
    for (long number = 0; number * gap < seconds * 1e9; number++) {
        for (long due = start + number * gap, left; (left = due - now()) > 0;)
            if (left > 200000) usleep(50);
        *payload = (struct payload){number, now()};
        if (sendto(s, bytes, size, 0, (struct sockaddr *)to, sizeof *to) < 0) perror("sendto");
    }
}
static void receive_all(int s, double seconds) {
    enum { KEPT = 1 << 22 };
    static long times[KEPT];
    static char bytes[65536];
    struct payload *payload = (struct payload *)bytes;
    struct timeval patience = {1, 0};
    long count = 0, first = -1, last = -1, begin = 0;
    double own_before = 0, machine_before = 0;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (recv(s, bytes, sizeof bytes, 0) > 0 || count == 0) {
        if (first < 0) { first = payload->number; begin = now(); own_before = own(); machine_before = machine(); }
        last = payload->number;
        if (count < KEPT) times[count] = now() - payload->nanoseconds;
        count++;
        if (now() - begin > seconds * 1e9) break;
    }
    double own_used = own() - own_before, machine_used = machine() - machine_before;
    long kept = count < KEPT ? count : KEPT;
    qsort(times, kept, sizeof *times, less);
    printf("%ld datagrams, %ld lost, latency %.1f us, 99%% %.1f us; each took %.2f us of this program, %.2f us of the machine\n", count,
           last - first + 1 - count, times[kept / 2] / 1e3, times[kept * 99 / 100] / 1e3, own_used / count, machine_used / count);
}
int main(int argc, char **argv) {
    if (argc < 6 || (*argv[1] == 's' && argc < 8)) return fprintf(stderr, "see the first lines of multicast.c\n"), 2;
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3])), .sin_addr.s_addr = inet_addr(argv[2])};
    struct in_addr interface = {inet_addr(argv[4])};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (*argv[1] == 's') {
        setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
        send_all(s, &group, atof(argv[5]), atol(argv[6]), atol(argv[7]));
        return 0;
    }
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = group.sin_port};
    struct ip_mreq wanted = {group.sin_addr, interface};
    if (bind(s, (struct sockaddr *)&any, sizeof any) || setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted))
        return perror("join"), 1;
    receive_all(s, atof(argv[5]));
    return 0;
}
