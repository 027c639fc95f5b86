"""What stands between elometer and a grader's code: a process that limits itself, then becomes the grader.

Run as a script with `-I`: it imports nothing of elometer, so nothing of it can leak. Its first argument is a
JSON object: `limits`, `report` (a descriptor on which it says how far it got), `isolate`, and `argv` or
`python` (a grader's file with `grade(answer, task)`). A process that cannot be started and a grader that
raises end with FAILED; what was printed last on stderr says why.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

FAILED = 113
HALF_WAY = b"half-way"  # namespaces were made and cannot be used: start again without them
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


def main(job: dict[str, Any]) -> None:
    """Isolate, limit, and become the grader; does not return."""
    _die_with_parent()
    isolated = job["isolate"] and _isolate(job["report"])
    os.write(job["report"], b"rlimit+nonet" if isolated else b"rlimit")
    os.close(job["report"])
    if isolated:
        _under_an_init()
    _limit(job["limits"], isolated)
    if "python" in job:
        _grade(job["python"])
    try:
        os.execvp(job["argv"][0], job["argv"])  # noqa: S606  # that no shell is in it is the point
    except OSError as error:
        _fail(f"{job['argv'][0]}: {error.strerror}")


def _die_with_parent() -> None:
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return  # not Linux: the process group's end is all there is


def _isolate(report: int) -> bool:
    """A network without interfaces and process numbers of one's own, where the kernel allows it."""
    user, group = os.getuid(), os.getgid()
    try:
        if ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID) != 0:
            return False
    except (OSError, AttributeError):
        return False
    try:
        # Without a map, files would belong to nobody.
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123  # a script without imports to spare
                file.write(line)
    except OSError:
        os.write(report, HALF_WAY)
        os._exit(FAILED)
    return True


def _under_an_init() -> None:
    """Go on as the child of a first process; when that one ends, the kernel ends everything below it."""
    for role in ("outside", "first"):
        child = os.fork()
        if child:
            os._exit(_status_of(child, reap_all=role == "first"))
        _die_with_parent()


def _status_of(child: int, *, reap_all: bool) -> int:
    while True:
        ended, status = os.waitpid(-1 if reap_all else child, 0)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _limit(limits: dict[str, int], isolated: bool) -> None:
    processes = limits["processes"] + (0 if isolated else _threads_of_user())
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"] + 1),
        (resource.RLIMIT_AS, limits["memory"], limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file"], limits["file"]),
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _soft, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def _threads_of_user() -> int:
    """The limit counts all threads of the user, so what runs already is added to it."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112, PTH208
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue
    return count


def _grade(path: str) -> None:
    """Call `grade(answer, task)` of a file and print its result; what it prints itself goes to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        with open("answer.txt", encoding="utf-8") as file:  # noqa: PTH123
            answer = file.read()
        with open("task.json", encoding="utf-8") as file:  # noqa: PTH123
            task = json.load(file)
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            source = file.read()
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120
        names: dict[str, Any] = {"__name__": "grader", "__file__": path}
        exec(compile(source, path, "exec"), names)  # noqa: S102  # the task's own grader
        text = json.dumps(names["grade"](answer, task))
    except MemoryError:
        os._exit(FAILED)
    except BaseException as error:
        _fail(f"{type(error).__name__}: {error}")
    os.write(out, text.encode() + b"\n")
    os._exit(0)


def _fail(words: str) -> None:
    os.write(2, words[-2000:].encode(errors="replace") + b"\n")
    os._exit(FAILED)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
