# Prints what the journal has of a service and of a program that attaches. $1: ringway
set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/systemd/journal
# ip-netns(8) mounts another /sys, which lacks what the journal looks for.
mount -t cgroup2 cgroup2 /sys/fs/cgroup

await() {
    turns=0
    until "$@" > /dev/null 2>&1; do
        turns=$((turns + 1))
        [ $turns -lt 400 ] || { echo "$*: not within 20 seconds" >&2; exit 1; }
        sleep 0.05
    done
}
has_entry() {
    journalctl --quiet --output cat "RINGWAY_PART=$1" | grep "$2"
}

/lib/systemd/systemd-journald &
started=$!
trap 'kill $started' EXIT
await systemd-cat true
# As systemd does for a service (systemd.exec(5)).
variables='JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) RINGWAY_LOG_FILTER=info,ringway::attach=debug exec "$@"'
systemd-cat --identifier ringway sh -c "$variables" sh "$1" serve --name journal &
started="$! $started"
await has_entry service ready
"$1" run --quiet --name journal -- python3 -c "import socket; s = socket.socket(); s.bind(('', 7000)); s.listen()"
await has_entry attach attaches
journalctl --quiet --output json SYSLOG_IDENTIFIER=ringway
