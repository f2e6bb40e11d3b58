"""The README's program, run as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.flows.conftest import ROOT, LecternServer
from tests.ingest import samples

ADDRESS = "http://127.0.0.1:8080"


def test_the_python_example_runs(shared_server: LecternServer, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    assert program.count(ADDRESS) == 1
    (tmp_path / "contract.pdf").write_bytes(samples.pdf())
    ended = subprocess.run(
        [sys.executable, "-c", program.replace(ADDRESS, shared_server.url)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "LECTERN_API_KEY": shared_server.key},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "'requested': 0.1" in ended.stdout
    assert "first_token" in ended.stdout
