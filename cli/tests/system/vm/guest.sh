#!/bin/sh
# In the guest, over the host's files: mounts what a machine has, then does what the host asks, line by line over a
# virtio-serial port. An answer is what the command wrote, and a last line with its status.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
export PATH HOME
mount -t tmpfs t /run
mkdir -p /dev/pts /dev/shm
mount -t devpts d /dev/pts
mount -t tmpfs s /dev/shm
for word in $(cat /proc/cmdline); do case $word in kernel=*) kernel=${word#kernel=} ;; esac; done
version=$(uname -r)
mkdir -p "/usr/lib/modules/$version"
mount --bind "$kernel/lib/modules/$version" "/usr/lib/modules/$version"
ip link set lo up
# The port opens once at a time, for both directions; before the host listens a read says that there is nothing.
exec 3<>"$(ls /dev/vport*p1)"
while :; do
    while IFS= read -r line <&3; do
        sh -c "$line" </dev/null >&3 2>&1 3>&-
        printf '\n@status %d\n' $? >&3
    done
    sleep 0.1
done
