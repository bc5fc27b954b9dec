"""Launches that never end by themselves, and get Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

_SCRIPT = """
import contextlib
import numpy as np
from tilewright.errors import LimitError
from tilewright.programs import Program
from tilewright.simt import Limits, launch
text = '''.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{ {body} }}
'''
program = Program.from_ptx(text)
with contextlib.suppress(LimitError):  # so that it is compiled, however busy the host is
    launch(program, 64, 64, (np.zeros(4),), cluster={cluster}, limits=Limits(seconds=0.1))
print("ready", flush=True)
launch(program, 64, 64, (np.zeros(4),), cluster={cluster})
"""


def ends_at_ctrl_c(body: str, cluster: int | None = None) -> None:
    """Fail unless a kernel of this PTX, launched in a separate process, ends at Ctrl-C and reports its place."""
    child = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT.format(body=body, cluster=cluster)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.5)  # until it runs
        assert child.poll() is None
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=20)
        assert time.monotonic() - start < 5
        # a thread that still ran would not have reported its place
        assert re.search(r"^KeyboardInterrupt: k: stopped in block \(\d+, 0, 0\), thread", errors.splitlines()[-1])
        assert child.returncode in (-signal.SIGINT, 130)
    finally:
        child.kill()
