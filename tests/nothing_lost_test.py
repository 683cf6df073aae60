#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: runs that are interrupted, run out of space or go wrong. Usage: nothing_lost_test.py SLUICE REPO [TEST]"""
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from handbook_runs import (ON_DRIVES, PLACE, ShortSteps, checkpoints, events_of, fingerprint, logged_steps,
                           steps_of)
from sluice_process import run, start

MIB = 1 << 20


def put_infinity(path, tensor):
    """Makes the first element of a bf16 tensor infinite."""
    with open(path, "r+b") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        assert header[tensor]["dtype"] == "BF16"
        file.seek(8 + length + header[tensor]["data_offsets"][0])
        file.write(struct.pack("<H", 0x7F80))


class Interrupts(ShortSteps):
    def test_the_second_ctrl_c_ends_a_run_that_hangs_and_it_goes_on_from_its_last_commit(self):
        settings = ("max_steps=40", "save_steps=4", "save_total_limit=1", *ON_DRIVES)
        whole, _ = self.finish("whole", *settings)
        out, words = self.words("hangs", *settings)
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, 1031, 4096)  # F_SETPIPE_SZ: a few steps, then printing hangs
        child = start("train", *words, stdout=theirs)
        os.close(theirs)
        filled, since = 0, time.monotonic()
        while filled < 2000 or time.monotonic() - since < 2:  # then it waits for a reader, and does nothing else
            now, = struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, b"\0" * 4))
            if now != filled:
                filled, since = now, time.monotonic()
            self.assertIsNone(child.poll())
            self.assertLess(time.monotonic() - since, 60)
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        said = ""
        while "once more" not in said:
            said += child.stderr.readline()
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(timeout=60), 130)
        self.assertIn("what was committed is kept", child.stderr.read())
        child.stderr.close()
        os.close(ours)
        done = self.succeed("resume", out, "--json")
        self.assertIn(steps_of(done)[0], range(5, 40, 4))
        self.assertEqual(fingerprint(out), fingerprint(whole))

    def test_the_first_ctrl_c_commits_the_step(self):
        whole, _ = self.finish("whole2", "max_steps=12")
        out, words = self.words("stopped", "max_steps=12")
        child = start("train", *words)
        last = 0
        for line in child.stdout:
            event = json.loads(line)
            last = event.get("step", last)
            if event["event"] == "step" and last == 2:
                child.send_signal(signal.SIGINT)
        errors = child.stderr.read()
        child.stdout.close()
        child.stderr.close()
        self.assertEqual(child.wait(), 130, errors)
        self.assertLess(last, 12)
        done = run("resume", out, "--json")
        self.assertEqual(steps_of(done)[0], last + 1)  # though its state lived in memory
        self.assertEqual(fingerprint(out), fingerprint(whole))


class FullDrives(ShortSteps):
    """On file systems of their own, which the kernel lets us have."""

    def on_small_drive(self, size_bytes, body):
        """Calls body(folder) with a folder on a drive of that size."""
        folder = tempfile.mkdtemp(dir=PLACE.name)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", folder], capture_output=True)
        if done.returncode != 0:
            self.skipTest("this user may not mount")
        try:
            body(folder)
        finally:
            subprocess.run(["umount", folder], check=True)

    def test_a_full_cache_drive_stops_the_run_which_goes_on_once_there_is_room(self):
        whole, _ = self.finish("roomy", "save_steps=1", *ON_DRIVES)

        def fill(folder):
            out, words = self.words("full", "save_steps=1", f"cache=[{folder}]", *ON_DRIVES)
            child = start("train", *words)
            for line in child.stdout:
                event = json.loads(line)
                if event["event"] != "step" or event["step"] != 2:
                    continue
                child.send_signal(signal.SIGSTOP)  # until another one has taken the drive
                free = shutil.disk_usage(folder).free
                with open(os.path.join(folder, "filler"), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free - (64 + 32) * MIB)  # so much is kept back; a checkpoint
                child.send_signal(signal.SIGCONT)
            errors = child.stderr.read()
            child.stdout.close()
            child.stderr.close()
            self.assertEqual(child.wait(), 1, errors)
            for text in ("is full", f"the drive of '{folder}/", "free ", "save_total_limit", "sluice resume"):
                self.assertIn(text, errors)
            kept = int(re.search(r"everything up to step (\d+) is kept", errors).group(1))
            self.assertIn(kept, range(2, 8))
            self.refuse(run("resume", out, "--json"), 1, "no room", "free ", "save_total_limit")
            # What it asks for is enough.
            size, unit = re.search(r"free ([0-9.]+) ([KM]iB)", errors).groups()
            wanted = float(size) * {"KiB": 1024, "MiB": MIB}[unit]
            filler = os.path.join(folder, "filler")
            os.truncate(filler, max(0, os.path.getsize(filler) - int(wanted * 1.001) - 4096))
            done = self.succeed("resume", out, "--json")
            self.assertEqual(steps_of(done), list(range(kept + 1, 9)))
            self.assertEqual(logged_steps(out), list(range(1, 9)))
            self.assertEqual(checkpoints(out), list(range(1, 9)))
            self.assertEqual(fingerprint(out), fingerprint(whole))

        self.on_small_drive(640 * MIB, fill)

    def test_a_run_fits_a_drive_of_the_size_that_was_planned(self):
        for name, settings in (("save_steps=2", ("save_total_limit=1", *ON_DRIVES)),
                               ("save_steps=1", ("save_total_limit=2", *ON_DRIVES)),
                               ("boundaries=nvme", ("save_steps=3", "gpu_memory=8MiB", "host_memory=24MiB"))):
            def fill(folder):
                out, words = self.words(f"exact {name}", name, f"cache=[{folder}]", *settings)
                planned = json.loads(self.succeed("plan", *words).stdout)  # with room to measure the drive
                needed = planned["memory"]["drives"]["total"] + (64 + 2) * MIB  # what is kept back; the journal
                with open(os.path.join(folder, "filler"), "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free - needed)
                end = events_of(self.succeed("train", *words))[-1]
                self.assertLessEqual(end["peak_bytes"]["drives"], planned["memory"]["drives"]["total"])

            self.on_small_drive(640 * MIB, fill)

    def test_a_full_output_drive_stops_the_run_which_goes_on_once_there_is_room(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            whole, _ = self.finish("ample" + name, "save_steps=2", *budgets)

            def fill(folder):
                _, words = self.words("cramped" + name, "save_steps=2", *budgets)
                out = os.path.join(folder, "out")
                words += [f"output_dir={out}", f"cache=[{self.path('cache' + name)}]"]
                done = run("train", *words)
                self.refuse(done, 1, f"the drive of '{out}' is full", "checkpoint-4 takes", "up to step 4 is kept")
                self.assertEqual(checkpoints(out), [2])
                done = run("resume", out, "--json", "save_strategy=no")
                self.refuse(done, 1, "is full", "the model takes", "up to step 8 is kept")
                shutil.rmtree(os.path.join(out, "checkpoint-2"))
                self.succeed("resume", out, "--json")
                self.assertEqual(fingerprint(out), fingerprint(whole))

            self.on_small_drive(8 * MIB, fill)


class Numbers(ShortSteps):
    def test_a_weight_that_is_infinite_is_found_in_its_slice(self):
        broken = self.path("broken")
        shutil.copytree(self.base, broken)
        put_infinity(os.path.join(broken, "model.safetensors"), "model.layers.1.mlp.up_proj.weight")
        _, words = self.words("infinite")
        self.refuse(run("train", *words, f"base_model={broken}"), 2, "step 1:", "weights of block.1", "base_model")

    def test_a_run_that_diverges_goes_back_and_learns_more_slowly(self):
        out, words = self.words("diverges", "lr_scheduler=constant", "save_steps=1", "learning_rate=1000",
                                "weight_decay=1000")
        self.refuse(run("train", *words), 2, "step 4: the loss is not a finite number", "what block.0 computes",
                    "up to step 3 is kept", f"sluice resume {out} --from checkpoint-2 learning_rate=100'")
        self.assertEqual(logged_steps(out), [1, 2, 3])
        self.refuse(run("resume", out, "--json", "learning_rate=1e-3"), 2, "step 4:", "--from checkpoint-2")
        done = self.succeed("resume", out, "--json", "--from", "checkpoint-1", "learning_rate=1e-3", "weight_decay=0")
        self.assertEqual(steps_of(done), list(range(2, 9)))
        with open(os.path.join(out, "config.yaml")) as file:
            self.assertIn("\nlearning_rate: 0.001\n", file.read())  # what it goes on with next time too


if __name__ == "__main__":
    unittest.main()
