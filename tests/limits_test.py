#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sluice within limits: of a control group, of ulimit, of a small drive, of a home that cannot be written. Every verb
ends well or says why it cannot; none is killed. Usage: limits_test.py SLUICE REPOSITORY"""

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

from handbook_runs import PLACE, TOKENIZER, TRAIN, base_model
from sluice_process import run

MIB = 1 << 20


class ControlGroup:
    """One with a limit on memory, v1 or v2; `why_not` says where none can be made."""

    def __init__(self, limit_bytes):
        self.folder, self.why_not = None, None
        for mount, limit, peak in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
                                   ("/sys/fs/cgroup", "memory.max", "memory.peak")):
            folder = os.path.join(mount, f"sluice-test-{os.getpid()}-{limit_bytes // MIB}")
            try:
                os.mkdir(folder)
                self.folder, self.peak = folder, os.path.join(folder, peak)
                with open(os.path.join(folder, limit), "w") as file:
                    file.write(str(limit_bytes))
                for swap in ("memory.memsw.limit_in_bytes", "memory.swap.max"):  # without help from swap
                    if os.path.exists(os.path.join(folder, swap)):
                        with open(os.path.join(folder, swap), "w") as file:
                            file.write("0" if swap == "memory.swap.max" else str(limit_bytes))
                return
            except OSError as error:
                self.why_not = f"no control group can be made here: {error}"
                self.close()

    def enter(self):
        """For a child, before it becomes sluice."""
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def peak_bytes(self):
        with open(self.peak) as file:
            return int(file.read())

    def close(self):
        if self.folder is None:
            return
        for _ in range(100):  # its last process may still be leaving
            try:
                os.rmdir(self.folder)
                break
            except OSError:
                subprocess.run(["sync"], check=False)
        self.folder = None


class Limits(unittest.TestCase):
    def path(self, name):
        return os.path.join(PLACE.name, name)

    def words(self, name, base, *more):
        """The words of a run of two steps, into a folder of its own."""
        config = self.path(name + ".yaml")
        with open(config, "w") as file:
            json.dump({"base_model": base, "datasets": [{"path": TRAIN}], "sequence_len": 128, "max_steps": 2,
                       "save_strategy": "no", "output_dir": self.path(name), "overwrite_output_dir": True}, file)
        return [config, *more]

    def ends_well_or_says_why(self, done, words):
        self.assertGreaterEqual(done.returncode, 0, f"{words} was killed: {done.stderr}")
        if done.returncode == 0:
            return True
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        said = lines[-1] if lines else done.stdout  # a plan that does not fit is an answer
        self.assertRegex(said, r"memory|MiB|threads", f"{words}: {done.stderr}")
        self.assertNotIn("std::", said)
        return False

    def verbs(self, base, name, *keys):
        """Each verb that takes memory, on one base: train and adapter first, as the others take what they wrote."""
        adapter, merged, gguf = (self.path(f"{name}-{what}") for what in ("adapter", "merged", "x.gguf"))
        for path in (merged, gguf):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.exists(path):
                os.remove(path)
        return [["env", "--no-measure"],
                ["plan", *self.words(name, base, *keys)],
                ["train", *self.words(name, base, *keys)],
                ["train", *self.words(f"{name}-adapter", base, "adapter=lora", "lora_r=4", *keys)],
                ["generate", "--model", base, "--prompt", "When is", "--max-new-tokens", "3"],
                ["generate", "--model", base, "--prompt", "When is", "--max-new-tokens", "3", "--host", "8GiB"],
                ["merge", base, adapter, merged],
                ["export", base, gguf]]


class InAControlGroup(Limits):
    @classmethod
    def setUpClass(cls):
        cls.group = ControlGroup(400 * MIB)
        if cls.group.why_not:
            raise unittest.SkipTest(cls.group.why_not)

    @classmethod
    def tearDownClass(cls):
        cls.group.close()

    def run_inside(self, *words):
        return run(*words, preexec_fn=self.group.enter)

    def run_all(self, verbs):
        """The verbs that did what was asked."""
        well = []
        for words in verbs:
            if words[0] == "merge" and not os.path.exists(os.path.join(words[2], "adapter_config.json")):
                continue
            if self.ends_well_or_says_why(self.run_inside(*words), words):
                well.append(words[0])
        return well

    def test_env_says_which_limit_binds(self):
        done = self.run_inside("env", "--no-measure")
        self.assertRegex(done.stdout, r"Memory +400 MiB \(cgroup memory\.\S+ of /sluice-test-[\d-]+; the machine has ")
        memory = json.loads(self.run_inside("env", "--no-measure", "--json").stdout)["memory"]
        self.assertEqual(memory["total_bytes"], 400 * MIB)
        self.assertGreater(memory["physical_bytes"], memory["total_bytes"])
        self.assertLessEqual(memory["available_bytes"], 400 * MIB)

    def test_no_verb_is_killed_on_the_demos_model(self):
        verbs = self.verbs(base_model(), "small")
        self.assertEqual(len(self.run_all(verbs)), len(verbs), "all of it fits")

    def test_no_verb_is_killed_on_a_model_that_is_larger_than_the_group(self):
        base = self.path("large")
        if not os.path.exists(base):
            done = run("model", "init", "llama-3.2-1b", base, "--layers", 1, "--tokenizer", TOKENIZER)  # 617 MiB
            self.assertEqual(done.returncode, 0, done.stderr)
        well = self.run_all(self.verbs(base, "large-run"))
        for verb in ("env", "generate", "export"):
            self.assertIn(verb, well)
        # What is planned by hand, up to the limit, and what is more.
        for device, host in ((190, 60), (200, 100), (250, 150), (300, 300)):
            words = ["train", *self.words("large-adapter", base, "adapter=lora", "lora_r=4", f"gpu_memory={device}MiB",
                                          f"host_memory={host}MiB")]
            if self.ends_well_or_says_why(self.run_inside(*words), words) and device == 190:
                self.run_all([["merge", base, self.path("large-adapter"), self.path("large-merged")]])
        for name in ("large-merged", "large-adapter", "large"):
            shutil.rmtree(self.path(name), ignore_errors=True)

    def test_a_tiny_group_is_told_what_would_do(self):
        tiny = ControlGroup(64 * MIB)
        self.addCleanup(tiny.close)
        self.assertIsNone(tiny.why_not)
        with tempfile.TemporaryDirectory() as cache:
            done = run("train", *self.words("tiny", base_model()), preexec_fn=tiny.enter,
                       env={**os.environ, "XDG_CACHE_HOME": cache})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("are too little to measure this machine, which a plan needs: 96 MiB would do", done.stderr)

    def test_measuring_the_machine_fits(self):
        with tempfile.TemporaryDirectory() as cache:
            done = run("plan", "--model", "llama-3.2-1b", preexec_fn=self.group.enter,
                       env={**os.environ, "XDG_CACHE_HOME": cache})
            self.ends_well_or_says_why(done, ["plan"])


class UnderUlimit(Limits):
    def test_no_verb_crashes_under_a_limit_on_addresses(self):
        base = base_model()
        done_well = {}
        for limit in (4096, 1024, 400, 200):
            def lower(limit=limit):
                resource.setrlimit(resource.RLIMIT_AS, (limit * MIB, limit * MIB))
            for words in self.verbs(base, f"ulimit-{limit}"):
                if words[0] == "merge" and not os.path.exists(os.path.join(words[2], "adapter_config.json")):
                    continue
                done = run(*words, preexec_fn=lower)
                if self.ends_well_or_says_why(done, [limit, *words]):
                    done_well.setdefault(limit, set()).add(words[0])
        self.assertEqual(done_well[4096], {"env", "plan", "train", "generate", "merge", "export"})

    def test_env_names_it(self):
        done = run("env", "--no-measure",
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1024 * MIB, 1024 * MIB)))
        self.assertIn("1 GiB (ulimit -v; the machine has", done.stdout)


class OddMachines(Limits):
    def test_a_home_that_cannot_be_written_is_no_hindrance(self):
        """Even root cannot write below a file."""
        with tempfile.NamedTemporaryFile() as file:
            env = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
            for home in (file.name, "", "/proc/nowhere"):
                env["HOME"] = home
                words = self.words("homeless", base_model())
                done = run("plan", *words, env=env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("kept", done.stderr)
                done = run("--verbose", "train", *words, env=env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count("is not kept, but measured again"), 1, done.stderr)
        self.assertFalse(os.path.exists(".cache"))

    def test_paths_begin_with_homes(self):
        home = self.path("home")
        os.makedirs(home, exist_ok=True)
        shutil.copytree(base_model(), os.path.join(home, "base"), dirs_exist_ok=True)
        shutil.copy(TRAIN, os.path.join(home, "rows.jsonl"))
        config = os.path.join(home, "c.yaml")
        with open(config, "w") as file:
            json.dump({"base_model": "~/base", "datasets": "~/rows.jsonl", "output_dir": "~/elsewhere",
                       "sequence_len": 128, "max_steps": 1}, file)
        done = run("train", "~/c.yaml", "output_dir=~/out", env={**os.environ, "HOME": home}, cwd=PLACE.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.exists(os.path.join(home, "out", "model.safetensors")))
        self.assertFalse(os.path.exists(os.path.join(PLACE.name, "~")))
        with open(os.path.join(home, "out", "config.yaml")) as file:
            self.assertNotIn("~", file.read())
        done = run("train", config, "output_dir=~nobody-of-this-name/x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("output_dir: ", done.stderr)
        self.assertIn("no user here", done.stderr)

    def test_a_small_drive_is_measured_with_less_and_a_full_one_says_what_to_do(self):
        if os.geteuid() != 0:
            self.skipTest("a small file system is mounted by root alone")
        for size, fits in ((200, True), (40, False)):
            with tempfile.TemporaryDirectory() as folder:
                mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "none", folder],
                                         capture_output=True, text=True)
                if mounted.returncode != 0:
                    self.skipTest(f"no file system can be mounted here: {mounted.stderr.strip()}")
                try:
                    words = self.words("small-drive", base_model(), f"output_dir={folder}/out")
                    with tempfile.TemporaryDirectory() as cache:
                        env = {**os.environ, "XDG_CACHE_HOME": cache}
                        for verb in ("plan", "train"):
                            done = run(verb, *words, env=env)
                            self.assertEqual(done.returncode == 0, fits, done.stdout + done.stderr)
                            if not fits:
                                self.assertIn("too little to measure its speed", done.stderr)
                                self.assertIn("free at least 64 MiB, or name a folder on another drive", done.stderr)
                finally:
                    subprocess.run(["umount", folder], check=True)

    def test_too_little_host_memory_is_refused_alike_and_what_is_said_to_work_does(self):
        sentences = set()
        for verb in ("plan", "train"):
            done = run(verb, *self.words("tight", base_model(), "gpu_memory=300MiB", "host_memory=1KiB"))
            self.assertEqual(done.returncode, 1)
            text = re.sub(r"\s+", " ", done.stdout + done.stderr)
            sentences.add(re.search(r"host_memory is 1 KiB, and this run takes at least [\d.]+ MiB", text).group(0))
        self.assertEqual(len(sentences), 1)
        least = sentences.pop().split("at least ")[1].replace(" ", "")
        done = run("train", *self.words("tight", base_model(), "gpu_memory=300MiB", f"host_memory={least}"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_plans_that_fit_start(self):
        for host in ("64KiB", "300KiB", "700KiB", "2MiB", "5MiB"):
            words = self.words("fits", base_model(), "gpu_memory=64MiB", f"host_memory={host}")
            planned = run("plan", *words).returncode
            done = run("train", *words)
            self.assertEqual(done.returncode, planned, f"{host}: {done.stderr}")

    def test_threads_have_an_end(self):
        done = run("train", *self.words("threads", base_model(), "threads=1000000"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("command line:threads: found 1000000, expected an integer from 1 to 1024", done.stderr)


if __name__ == "__main__":
    unittest.main()
