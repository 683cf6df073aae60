# SPDX-License-Identifier: Apache-2.0
"""The sluice under test, which a test's first argument names: run to its end, or met by a signal on the way."""
import os
import signal
import subprocess
import sys
import tempfile

SLUICE = sys.argv.pop(1)


def run(*words, **options):
    return subprocess.run([SLUICE, *map(str, words)], capture_output=True, text=True, timeout=300, **options)


def start(*words, **options):
    """A child whose output is read through pipes, unless the options say otherwise."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([SLUICE, *map(str, words)], **options)


def peak_bytes(*words):
    """Runs sluice to its end; its output and the most memory it had at once."""
    with tempfile.TemporaryFile() as out:
        child = start(*words, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return child.returncode, out.read().decode(), usage.ru_maxrss * 1024


def interrupt_when(arrived, *words):
    """Ctrl-C where arrived() says; it must not end before. The exit code and what was said."""
    child = start(*words)
    while not arrived():
        if child.poll() is not None:
            raise AssertionError(f"ended early: {child.communicate()}")
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    return child.returncode, errors
