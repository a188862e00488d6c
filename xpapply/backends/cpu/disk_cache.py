"""Machine code on disk, so that no other process compiles the same kernel again.

In ``kernels`` of the user's cache folder, or of ``XPAPPLY_CACHE_DIR``; nowhere if that is set and
empty. The code will run, so it is taken from nowhere that others can write to, and only as it was
written. Whatever is wrong with the folder or a file, the kernel is compiled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import time
from contextlib import suppress

from ...limits import LIMITS

_HEADER = struct.Struct("<8s32s32sQ")
"""The header: format, key, the code's checksum, its length."""
_MAGIC = b"xpapply1"
_OPEN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def folder() -> str | None:
    """The folder of files; None: no cache."""
    asked = os.environ.get("XPAPPLY_CACHE_DIR")
    if asked is not None:
        return (
            os.path.join(os.path.abspath(os.path.expanduser(asked)), "kernels") if asked else None
        )
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return os.path.join(base, "xpapply", "kernels") if os.path.isabs(base) else None


def read(key: str) -> bytes | None:
    """The code that was written for a key; None if there is none that can be trusted."""
    where = folder()
    if where is None or not _is_ours(where):
        return None
    path, digest = _place(where, key)
    try:
        with open(os.open(path, os.O_RDONLY | _OPEN), "rb") as file:
            seen = os.fstat(file.fileno())
            if (
                not stat.S_ISREG(seen.st_mode)
                or seen.st_size > LIMITS.disk_cache_largest
                or _is_foreign(seen)
            ):
                return None
            found = file.read(LIMITS.disk_cache_largest)
    except OSError:
        return None
    if len(found) < _HEADER.size:
        return None
    magic, whose, checksum, length = _HEADER.unpack_from(found)
    code = found[_HEADER.size :]
    if magic != _MAGIC or whose != digest or length != len(code):
        return None
    if hashlib.sha256(code).digest() != checksum:
        return None
    with suppress(OSError):
        os.utime(path)  # it was used
    return code


def is_empty() -> bool:
    """Whether no code is there, or none that can be read."""
    where = folder()
    try:
        with os.scandir(where) as found:
            return where is None or not any(found)
    except OSError:
        return True


def write(key: str, code: bytes) -> None:
    """Store code for a key, if possible."""
    where = folder()
    if where is None or len(code) > LIMITS.disk_cache_largest - _HEADER.size:
        return
    with suppress(OSError):
        if not os.path.isdir(where):
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(where, 0o700)
        if not _is_ours(where):
            return
        path, digest = _place(where, key)
        drawn = os.urandom(8)
        temporary = os.path.join(where, f"{drawn.hex()}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(_HEADER.pack(_MAGIC, digest, hashlib.sha256(code).digest(), len(code)))
                file.write(code)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        # by chance: no process begins by looking at all that others have written
        if int.from_bytes(drawn, "little") % LIMITS.disk_cache_looks == 0:
            _shrink(where)


def _place(where: str, key: str) -> tuple[str, bytes]:
    digest = hashlib.sha256(key.encode()).digest()
    return os.path.join(where, f"{digest.hex()}.code"), digest


def _is_ours(where: str) -> bool:
    """Whether it is a folder, not a link, that no other user can read."""
    try:
        seen = os.lstat(where)
    except OSError:
        return False
    if not stat.S_ISDIR(seen.st_mode) or _is_foreign(seen):
        return False
    return os.name == "nt" or not seen.st_mode & 0o077


def _is_foreign(seen: os.stat_result) -> bool:
    """Whether another user owns a file or may write to it; always False on Windows."""
    return os.name != "nt" and (seen.st_uid != os.geteuid() or bool(seen.st_mode & 0o022))


def _shrink(where: str) -> None:
    """Remove what was used longest ago where there is too much, and what was left unfinished.

    Not all of it at once: the caller waits for a result.
    """
    found, now = [], time.time()
    with os.scandir(where) as entries:
        for entry in entries:
            with suppress(OSError):  # another process removes the same
                seen = entry.stat(follow_symlinks=False)
                if entry.name.endswith(".code"):
                    found.append((seen.st_mtime, seen.st_size, entry.path))
                elif entry.name.endswith(".tmp") and now - seen.st_mtime > LIMITS.disk_cache_stale:
                    os.unlink(entry.path)
    total, count = sum(size for _, size, _ in found), len(found)
    if total <= LIMITS.disk_cache and count <= LIMITS.disk_cache_files:
        return
    kept = LIMITS.disk_cache_kept
    for _, size, path in sorted(found)[: LIMITS.disk_cache_goes]:
        if total <= kept * LIMITS.disk_cache and count <= kept * LIMITS.disk_cache_files:
            return
        with suppress(OSError):
            os.unlink(path)
        total, count = total - size, count - 1
