"""A process that runs pytest in forks of itself.

It has imported the modules before that its arguments name, as far as they are installed. It imports
nothing of the tree whose tests it runs, and so is started by its path. A request is a line of JSON
with the arguments of pytest and the file of its output; the answers are two lines, the process id
of the fork, which is the leader of its process group, and its exit status.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn


def main() -> None:
    """Serve requests until standard input ends."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # no fork looks through what it shares with us, which would also copy it
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run_tests(request)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run_tests(request: dict[str, Any]) -> NoReturn:
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 3  # of an internal error, as pytest's own
    try:
        import pytest

        status = int(pytest.main(request["arguments"]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
