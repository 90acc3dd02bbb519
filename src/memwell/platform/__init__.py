"""Every call that differs between Linux, macOS and Windows; no other package makes one.

| module   | purpose                  | Linux               | macOS           | Windows            |
|----------|--------------------------|---------------------|-----------------|--------------------|
| folders  | data and configuration   | XDG folders         | ~/Library       | AppData            |
| files    | lock between processes   | flock               | flock           | msvcrt.locking     |
| files    | flush to the disk        | fsync, also folders | F_FULLFSYNC     | fsync, files alone |
| files    | replace a file           | rename              | rename          | rename, retried    |
| files    | private to this user     | mode 600, 700       | mode 600, 700   | the user's profile |
| memory   | limit of a process       | RLIMIT_AS           | where allowed   | none               |
| mounts   | network drives           | /proc/mounts        | `mount`         | GetDriveTypeW      |
| sockets  | hooks ask the server     | Unix socket         | Unix socket     | none: no server    |
| stop     | end on request           | SIGINT, SIGTERM     | SIGINT, SIGTERM | also SIGBREAK      |
| events   | changes up to now        | inotify             | none: look      | none: look         |
| files    | lock between workers     | lockf               | lockf           | none: one worker   |
| watching | notifications of changes | one per folder      | one per tree    | one per tree       |

Each function takes the platform as its last argument, so that a test can run every branch.
"""

from __future__ import annotations

import sys

LINUX, MACOS, WINDOWS = "linux", "macos", "windows"

CURRENT = {"darwin": MACOS, "win32": WINDOWS, "cygwin": WINDOWS}.get(sys.platform, LINUX)
"""The platform that this process runs on; other Unix systems count as Linux."""
