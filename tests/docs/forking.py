"""A process that runs Python modules in forks of itself, as `python -m` would.

It has imported the libraries that its arguments name, which takes seconds, but nothing of the tree
whose modules it runs; so it is started by its path. A request is a line of JSON: the file of the
output, the module, and its arguments. The answer is a line with the exit status.
"""

import importlib
import json
import os
import runpy
import sys
import traceback
from contextlib import suppress
from typing import NoReturn


def main() -> None:
    """Serve requests until standard input ends."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(*json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(output: str, module: str, *arguments: str) -> NoReturn:
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, target)
    sys.argv = [module, *arguments]
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
