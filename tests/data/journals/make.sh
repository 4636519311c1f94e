#!/bin/sh
# Make the journal files of this folder anew, in a root of Debian 13 (systemd 257): one whose texts are packed by LZ4, in
# compact layout, and one by XZ, in the regular layout. journald itself packs by zstd; only these switches of its library
# (docs/ENVIRONMENT.md of systemd) make it use what older ones used.
#
# usage: make.sh ROOT    a folder that does not exist yet; needs root, mmdebstrap and zstd
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$1
mmdebstrap --quiet --variant=minbase --include=systemd-journal-remote trixie "$root"
zstd --decompress --quiet "$here/../recordings/celery-5.7/json_logs/journal.export.zst" -o "$root/tmp/journal.export"
for one in LZ4:1:lz4 XZ:0:xz; do
    method=${one%%:*} name=${one##*:} rest=${one#*:}
    chroot "$root" env "SYSTEMD_JOURNAL_COMPRESS=$method" "SYSTEMD_JOURNAL_COMPACT=${rest%%:*}" \
        /usr/lib/systemd/systemd-journal-remote "--output=/tmp/$name.journal" /tmp/journal.export
    zstd -19 --quiet --force "$root/tmp/$name.journal" -o "$here/$name.journal.zst"
done
