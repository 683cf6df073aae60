#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: exit codes, one-sentence errors, JSON, signals. Usage: cli_test.py SLUICE"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

SLUICE = sys.argv.pop(1)
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "handbook")


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
        self.assert_refused(run("nonsense"), 2, "nonsense", "sluice help")
        self.assertEqual(run().returncode, 2)
        self.assertIn("Usage: sluice", run().stderr)
        self.assert_refused(
            run("bench", "io", "--cache", self.dir, "--size", "1MiB", "--against", "fio", env={"PATH": "/nowhere"}), 2,
            "fio", "install")

    def test_an_unknown_word_is_named_with_the_nearest(self):
        self.assert_refused(run("trian", "c.yaml"), 2, '"trian"', "did you mean train?")
        self.assert_refused(run("bench", "strem"), 2, "did you mean stream?")
        self.assert_refused(run("plan", "--model", "llama-3.1-8b", "--micro-batch", "1"), 2, "--micro-batch;",
                            "did you mean --micro-batch-size?")
        self.assert_refused(run("help", "trian"), 2, "did you mean train?")
        self.assert_refused(run("generate", "m", "--max-new-token=3"), 2, "--max-new-tokens?")
        self.assert_refused(run("completion", "tcsh"), 2, "tcsh", "bash, zsh or fish")
        self.assert_refused(run("bench"), 2, "bench: it needs one of its verbs", "sluice help bench")
        self.assert_refused(run("train"), 2, "sluice: train: config is required", "sluice help train")
        self.assert_refused(run("generate", "m", "--threads", "0"), 2, "generate: --threads", "range")

    def test_help_is_that_of_the_verb(self):
        for words in (("train",), ("data", "check"), ("bench", "step"), ()):
            asked = run("help", *words)
            self.assertEqual(asked.returncode, 0, asked.stderr)
            self.assertEqual(asked.stdout, run(*words, "--help").stdout)
        self.assertIn("--sequence-len", run("help", "data", "check").stdout)
        for verb in ("eval", "train", "completion", "man"):
            self.assertIn(verb, run("help").stdout)
        self.assertEqual(run("--version").returncode, 0)

    def test_verbose_may_stand_behind_the_verb(self):
        self.assertEqual(run("env", "--no-measure", "--verbose", "--json").returncode, 0)
        self.assertEqual(run("--verbose", "env", "--no-measure", "--json").returncode, 0)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = f"""source <("$SLUICE" completion bash)
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", script, "bash", "sluice", *words], capture_output=True, text=True,
                              timeout=60, cwd=self.dir, env={**os.environ, "SLUICE": os.path.abspath(SLUICE)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes_verbs_options_keys_and_files(self):
        for name in ("config.yaml", "sequences.txt"):
            open(os.path.join(self.dir, name), "w").close()
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(self.complete("data", ""), ["check"])
        self.assertEqual(self.complete("data", "check", "--sch"), ["--schema"])
        self.assertIn("--micro-batch-size", self.complete("plan", "--"))
        self.assertNotIn("--prompt", self.complete("plan", "--"))
        self.assertEqual(self.complete("train", "conf"), ["config.yaml"])
        self.assertEqual(self.complete("train", "config.yaml", "sequence"), ["sequence_len=", "sequences.txt"])
        self.assertEqual(self.complete("train", "config.yaml", "output_dir", "=", "seq"), ["sequences.txt"])
        self.assertEqual(self.complete("generate", "--model", "seq"), ["sequences.txt"])
        self.assertEqual(self.complete("train", "plan", "--tra"), ["--trace", "--trace-steps"])  # a file of that name

    def test_completions_hold_for_the_shells_that_are_here(self):
        for shell, check in (("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])):
            done = run("completion", shell)
            self.assertEqual(done.returncode, 0, done.stderr)
            for part in ("micro-batch-size", "gradient_accumulation_steps", "max-new-tokens", "check"):
                self.assertIn(part, done.stdout)
            if not shutil.which(shell):
                continue
            path = os.path.join(self.dir, "completion." + shell)
            with open(path, "w") as file:
                file.write(done.stdout)
            checked = subprocess.run([shell, *check, path], capture_output=True, text=True, timeout=60)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""), shell)

    def test_every_verb_has_a_manual_page(self):
        folder = os.path.join(self.dir, "man")
        self.assertEqual(run("man", "--output", folder).returncode, 0)
        pages = os.listdir(folder)
        for name in ("sluice.1", "sluice-train.1", "sluice-data-check.1", "sluice-eval.1"):
            self.assertIn(name, pages)
        for name in pages:
            path = os.path.join(folder, name)
            with open(path) as file:
                text = file.read()
            self.assertEqual(run("man", *name[:-2].split("-")[1:]).stdout, text)
            for part in (".TH SLUICE", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXIT STATUS"):
                self.assertIn(part, text)
            # Requests are macros of man; no line of text is taken for one.
            requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
            self.assertLessEqual(requests, {".TH", ".SH", ".TP", ".br"}, name)
            if shutil.which("groff"):
                shown = subprocess.run(["groff", "-k", "-man", "-ww", "-Tutf8", path], capture_output=True, text=True, timeout=60)
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), name)
        self.assert_refused(run("man", "trian"), 2, "did you mean train?")

    def test_what_is_missing_is_not_to_be_made(self):
        missing = os.path.join(self.dir, "missing")
        for words in (("generate", missing, "--prompt", "x"), ("model", "show", missing), ("tokenize", missing),
                      ("template", missing), ("export", missing, "out.gguf"), ("merge", missing, missing, "out"),
                      ("eval", missing, "rows.jsonl"), ("data", "check", "rows.jsonl", "--model", missing),
                      ("store", "check", missing)):
            done = run(*words)
            self.assert_refused(done, 2, missing, "check the path")
            self.assertNotIn("make", done.stderr)

    def test_a_hub_id_gets_the_command_that_downloads_it(self):
        model = "meta-llama/Llama-3.1-8B"
        for words in (("generate", model, "--prompt", "x"), ("model", "show", model), ("tokenize", model, "--text", "x"),
                      ("template", model), ("export", model, "out.gguf"), ("merge", model, self.dir, "out"),
                      ("eval", model, "rows.jsonl"), ("plan", "--model", model),
                      ("generate", "--adapter", model, "--prompt", "x"),
                      ("data", "check", "rows.jsonl", "--model", model)):
            self.assert_refused(run(*words), 2, f"hf download {model} --local-dir Llama-3.1-8B")
        config = os.path.join(self.dir, "run.yaml")
        with open(config, "w") as file:
            json.dump({"base_model": model, "datasets": [{"path": "rows.jsonl"}],
                       "output_dir": os.path.join(self.dir, "out")}, file)
        self.assert_refused(run("train", config), 2, f"hf download {model} --local-dir Llama-3.1-8B")

    def test_a_directory_in_place_of_a_file_is_told_so(self):
        tokenizer = os.path.join(EXAMPLE, "tokenizer")
        config = os.path.join(self.dir, "run.yaml")
        os.mkdir(config)
        for words in (("train", config), ("plan", config), ("plan", "--model", "llama-3.1-8b", "--machine", config),
                      ("template", tokenizer, "--messages", config)):
            done = run(*words)
            self.assert_refused(done, 2, "irectory")
            self.assertNotIn("dmesg", done.stderr)

    def test_other_formats_are_named_for_what_they_are(self):
        tokenizer = os.path.join(EXAMPLE, "tokenizer")
        for name, parts in (("rows.parquet", ("a binary table", "to_json")), ("rows.jsonl.gz", ("compressed", "unpack")),
                            ("rows.xlsx", ("a spreadsheet", ".csv")), ("rows", ("JSON lines end in .jsonl",))):
            path = os.path.join(self.dir, name)
            open(path, "w").close()
            done = run("data", "check", path, "--model", tokenizer)
            self.assert_refused(done, 2, path, *parts)
            self.assertNotIn("name it .jsonl", done.stderr)

    def test_a_folder_that_holds_something_is_refused_with_what_can_be_done(self):
        folder = os.path.join(self.dir, "full")
        os.mkdir(folder)
        open(os.path.join(folder, "mine.txt"), "w").close()
        done = run("model", "init", "llama-tiny", folder)
        self.assert_refused(done, 2, folder, "mine.txt", "a new or empty folder")
        self.assertNotIn("replaced", done.stderr)

    def test_data_in_the_place_of_a_configuration_is_told_so(self):
        for verb in ("train", "plan"):
            path = os.path.join(EXAMPLE, "train.jsonl")
            self.assert_refused(run(verb, path), 2, path, "no training configuration", "YAML")

    def test_a_zero_byte_cuts_no_message_off(self):
        config = os.path.join(self.dir, "run.yaml")
        for text in ('base_model: "a\\0b"\n', 'sequence_len: "4\\0 096"\n', '"base\\0model": x\n',
                     'datasets: [{path: "a\\0b"}]\nbase_model: x\n'):
            with open(config, "w") as file:
                file.write(text)
            done = run("train", config)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"expected|did you mean|docs/config.md", text)  # what to do comes last
        with open(os.path.join(self.dir, "tokenizer_config.json"), "w") as file:
            json.dump({"chat_template": "{{ raise_exception('no role ' + messages[0].role + ' here; use user') }}"}, file)
        messages = os.path.join(self.dir, "messages.json")
        with open(messages, "w") as file:
            json.dump([{"role": "us\0er", "content": "x"}], file)
        done = run("template", self.dir, "--messages", messages)
        self.assertIn("no role us\\0er here; use user", done.stderr)

    def test_notes_of_ignored_keys_share_a_line(self):
        config = os.path.join(self.dir, "run.yaml")
        with open(config, "w") as file:
            json.dump({"base_model": "/nonexistent", "datasets": [{"path": "rows.jsonl"}], "tf32": True,
                       "wandb_project": "x", "flash_attention": True,
                       "output_dir": os.path.join(self.dir, "out")}, file)
        lines = run("train", config).stderr.splitlines()
        notes = [line for line in lines if "ignored" in line]
        self.assertEqual(len(notes), 1, lines)
        for key in ("tf32", "wandb_project", "flash_attention", "docs/config.md"):
            self.assertIn(key, notes[0])
        self.assertIn("sums are kept in fp32", run("train", config, "--verbose").stderr)

    def test_a_directory_nobody_may_write_in_is_refused(self):
        self.assert_refused(run("bench", "commit", "--cache", "/sys", "--size", "1MiB"), 2, "/sys", "another path")

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
