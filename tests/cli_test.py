#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: exit codes, one-sentence errors, JSON, signals. Usage: cli_test.py SLUICE"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

SLUICE = sys.argv.pop(1)


def run(*words, env=None):
    return subprocess.run([SLUICE, *words], capture_output=True, text=True, timeout=120, env=env)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = self.scratch.name

    def make_store(self, name="store", steps=2):
        path = os.path.join(self.dir, name)
        os.mkdir(path)
        done = run("bench", "commit", "--cache", path, "--size", "16MiB", "--device", "16MiB", "--host", "16MiB",
                   "--steps", str(steps), "--keep")
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def test_env_tells_the_engine_and_why(self):
        done = run("env", "--cache", self.dir, "--no-measure", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("io_engine", json.dumps(json.loads(done.stdout)))

    def test_output_that_could_not_be_written_is_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([SLUICE, "env", "--no-measure"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)

    def test_bench_io_prints_the_promised_json(self):
        for caches in (1, 2):
            words = []
            for idx in range(caches):
                path = os.path.join(self.dir, f"io{caches}{idx}")
                os.mkdir(path)
                words += ["--cache", path]
            done = run("bench", "io", *words, "--size", "64MiB", "--rounds", "1", "--against", "fio", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertEqual(set(report), {"engine", "read", "write"})
            for direction in ("read", "write"):
                self.assertEqual(set(report[direction]), {"gb_per_s", "fio_gb_per_s", "ratio"})
                self.assertGreater(report[direction]["ratio"], 0)
            self.assertEqual([os.listdir(words[i]) for i in range(1, len(words), 2)], [[]] * caches)

    def test_bench_stream_keeps_to_its_budgets_and_cleans_up(self):
        done = run("bench", "stream", "--cache", self.dir, "--size", "256MiB", "--host", "32MiB", "--device", "16MiB",
                   "--rounds", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for key in ("gb_per_s", "raw_read_gb_per_s", "ratio", "peak_rss_bytes"):
            self.assertIn(key, report)
        self.assertLessEqual(report["peak_rss_bytes"], (32 + 16 + 64) << 20)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_store_over_two_directories_streams_and_is_checked(self):
        places = [os.path.join(self.dir, name) for name in ("one", "two")]
        words = []
        for place in places:
            os.mkdir(place)
            words += ["--cache", place]
        done = run("bench", "commit", *words, "--size", "64MiB", "--steps", "2", "--keep", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout.splitlines()[-1])["drive_bytes_written"]), 2)
        self.assert_refused(run("store", "check", places[0]), 2, "2 drives")
        report = json.loads(run("store", "check", *reversed(places), "--json").stdout)
        self.assertTrue(report["whole"])
        self.assertEqual(report["verified_bytes"], 64 << 20)

    def test_the_threads_engine_does_the_same(self):
        done = run("bench", "stream", "--cache", self.dir, "--size", "64MiB", "--host", "32MiB", "--device", "16MiB",
                   "--rounds", "1", "--io", "threads", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["engine"], "threads")

    def test_the_users_mistakes_end_with_two(self):
        missing = os.path.join(self.dir, "missing")
        self.assert_refused(run("bench", "io", "--cache", missing), 2, missing, "make the directory")
        self.assert_refused(run("store", "check", self.dir), 2, self.dir, "holds no slice store")
        self.assert_refused(run("bench", "io", "--cache", self.dir, "--size", "12 parsecs"), 2, "12 parsecs", "512MiB")
        self.assert_refused(run("bench", "io", "--cache", self.dir, "--size", "900TiB"), 2, self.dir, "free")
        self.assert_refused(run("bench", "io", "--cache", self.dir, "--against", "hope"), 2, "hope", "fio")
        self.assert_refused(run("bench", "io", "--cache", self.dir, "--io", "magic"), 2, "magic", "uring")
        self.assert_refused(run("env", "--cache", missing), 2, missing)
        self.assertEqual(run("nonsense").returncode, 2)
        self.assertEqual(run().returncode, 2)
        self.assert_refused(
            run("bench", "io", "--cache", self.dir, "--size", "1MiB", "--against", "fio", env={"PATH": "/nowhere"}), 2,
            "fio", "install")

    def test_a_directory_nobody_may_write_in_is_refused(self):
        self.assert_refused(run("bench", "commit", "--cache", "/sys", "--size", "1MiB"), 2, "/sys", "another directory")

    def test_a_budget_too_small_says_what_would_do(self):
        done = run("bench", "stream", "--cache", self.dir, "--size", "16MiB", "--host", "1MiB", "--device", "16MiB")
        self.assert_refused(done, 1, "raise the host budget to 2 MiB")

    def test_a_store_in_use_is_refused(self):
        store = self.make_store()
        running = subprocess.Popen([SLUICE, "bench", "commit", "--cache", store, "--size", "64MiB", "--steps", "100000",
                                    "--keep", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            running.stdout.readline()
            self.assert_refused(run("store", "check", store), 2, store, f"process {running.pid}")
        finally:
            running.kill()
            running.communicate()
            running.stdout.close()
        self.assertEqual(run("store", "check", store).returncode, 0)

    def test_ctrl_c_ends_after_a_commit_and_leaves_the_store_clean(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            store = self.make_store(f"store{number}")
            running = subprocess.Popen([SLUICE, "bench", "commit", "--cache", store, "--size", "64MiB", "--steps",
                                        "100000", "--keep", "--json"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            running.stdout.readline()
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(running.stdout))
            reader.start()
            running.send_signal(number)
            reader.join()
            sentence = running.stderr.read()
            self.assertEqual(running.wait(), 130, sentence)
            self.assertIn("which is committed", sentence)
            running.stderr.close()
            running.stdout.close()
            report = json.loads(run("store", "check", store, "--json").stdout)
            self.assertTrue(report["whole"])
            self.assertEqual(report["findings"], [])
            self.assertIn(f"step {report['note']}", sentence)

    def test_ctrl_c_leaves_nothing_of_a_benchmark(self):
        for verb in ("io", "stream", "commit"):
            words = [SLUICE, "bench", verb, "--cache", self.dir, "--size", "1GiB"]
            words += ["--steps", "100000"] if verb == "commit" else ["--rounds", "1000"]
            running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not os.listdir(self.dir):  # until it is at work
                self.assertIsNone(running.poll())
            running.send_signal(signal.SIGINT)
            _, sentence = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130, sentence)
            self.assertIn("interrupted", sentence)
            self.assertEqual(os.listdir(self.dir), [], verb)

    def test_damage_is_named_and_ends_with_one(self):
        store = self.make_store(steps=1)
        data = os.path.join(store, "slices.dat")
        with open(data, "r+b") as file:
            file.seek((1 << 20) + 12345)
            byte = file.read(1)[0]
            file.seek((1 << 20) + 12345)
            file.write(bytes([byte ^ 4]))
        done = run("store", "check", store, "--json")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertFalse(report["whole"])
        self.assertTrue(any(data in finding["text"] for finding in report["findings"]))

    def test_a_truncated_store_ends_with_one(self):
        store = self.make_store()
        os.truncate(os.path.join(store, "slices.dat"), 2 << 20)
        self.assert_refused(run("store", "check", store), 1, "slices.dat", "truncated")

    def test_a_foreign_file_is_refused_and_left_alone(self):
        with open(os.path.join(self.dir, "slices.dat"), "wb") as file:
            file.write(b"holiday pictures" * 1000)
        self.assert_refused(run("store", "check", self.dir), 2, self.dir, "not a slice store")
        self.assert_refused(run("bench", "commit", "--cache", self.dir, "--size", "1MiB", "--keep"), 2, "not a slice store")
        self.assertEqual(os.path.getsize(os.path.join(self.dir, "slices.dat")), 16000)

    def test_a_damaged_header_is_repaired_only_when_asked(self):
        store = self.make_store()
        with open(os.path.join(store, "slices.dat"), "r+b") as file:
            file.seek(70)
            byte = file.read(1)[0]
            file.seek(70)
            file.write(bytes([byte ^ 1]))
        self.assertEqual(run("store", "check", store).returncode, 1)
        self.assertEqual(run("store", "check", store).returncode, 1)
        self.assertEqual(run("store", "check", store, "--repair").returncode, 0)
        self.assertEqual(run("store", "check", store).returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
