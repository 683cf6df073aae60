#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: runs that are interrupted, run out of space, go wrong or go back. Usage: nothing_lost_test.py SLUICE REPO [TEST]"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

SLUICE, REPOSITORY = sys.argv[1], sys.argv[2]
EXAMPLE = os.path.join(REPOSITORY, "examples", "handbook")
ON_DRIVES = ("gpu_memory=8MiB", "host_memory=16MiB")  # too little for the state of the model below
MIB = 1 << 20


def run(*words, **options):
    return subprocess.run([SLUICE, *map(str, words)], capture_output=True, text=True, timeout=300, **options)


def fingerprint(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def steps_of(done):
    return [event["step"] for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "step"]


def put_infinity(path, tensor):
    """Makes the first element of a bf16 tensor infinite."""
    with open(path, "r+b") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        assert header[tensor]["dtype"] == "BF16"
        file.seek(8 + length + header[tensor]["data_offsets"][0])
        file.write(struct.pack("<H", 0x7F80))


PLACE = tempfile.TemporaryDirectory()


def setUpModule():
    os.environ["XDG_CACHE_HOME"] = os.path.join(PLACE.name, "cache")  # this machine is measured once
    done = run("model", "init", "llama-tiny", os.path.join(PLACE.name, "base"), "--layers", 2, "--tokenizer",
               os.path.join(EXAMPLE, "tokenizer"))
    assert done.returncode == 0, done.stderr


def tearDownModule():
    PLACE.cleanup()


class Runs(unittest.TestCase):
    place = PLACE
    base = os.path.join(PLACE.name, "base")

    def path(self, *names):
        return os.path.join(self.place.name, *names)

    def words(self, name, *more):
        """A short run into a folder of its own."""
        out = self.path(name)
        config = self.path(name + ".yaml")
        with open(config, "w") as file:
            json.dump({"base_model": self.base, "datasets": [{"path": os.path.join(EXAMPLE, "train.jsonl")}],
                       "sequence_len": 128, "micro_batch_size": 1, "gradient_accumulation_steps": 2, "max_steps": 8,
                       "learning_rate": 1e-3, "save_steps": 1000, "output_dir": out, "threads": 2}, file)
        return out, [config, "--json", *more]

    def finish(self, name, *more):
        out, words = self.words(name, *more)
        done = run("train", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out, done

    def refuse(self, done, code, *expected):
        """One sentence that says what is expected of it."""
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for text in expected:
            self.assertIn(text, lines[0])

    def logged(self, out):
        with open(os.path.join(out, "trainer_log.jsonl")) as file:
            return [entry["current_steps"] for entry in map(json.loads, file) if "eval_loss" not in entry]

    def checkpoints(self, out):
        return sorted(int(name.split("-")[1]) for name in os.listdir(out) if name.startswith("checkpoint-"))


class Interrupts(Runs):
    def test_the_second_ctrl_c_ends_a_run_that_hangs_and_it_goes_on_from_its_last_commit(self):
        settings = ("max_steps=40", "save_steps=4", "save_total_limit=1", *ON_DRIVES)
        whole, _ = self.finish("whole", *settings)
        out, words = self.words("hangs", *settings)
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, 1031, 4096)  # F_SETPIPE_SZ: a few steps, then printing hangs
        child = subprocess.Popen([SLUICE, "train", *words], stdout=theirs, stderr=subprocess.PIPE, text=True)
        os.close(theirs)
        filled = 0
        while filled < 3700:  # lines are shorter than the rest
            filled, = struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, b"\0" * 4))
            self.assertIsNone(child.poll())
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
        done = run("resume", out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(steps_of(done)[0], range(5, 40, 4))
        self.assertEqual(fingerprint(out), fingerprint(whole))

    def test_the_first_ctrl_c_commits_the_step(self):
        whole, _ = self.finish("whole2", "max_steps=12")
        out, words = self.words("stopped", "max_steps=12")
        child = subprocess.Popen([SLUICE, "train", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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


class FullDrives(Runs):
    """On file systems of their own, which the kernel lets us have."""

    def on_small_drive(self, size_bytes, body):
        """Calls body(folder) with a folder on a drive of that size."""
        folder = tempfile.mkdtemp(dir=self.place.name)
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
            self.assertEqual(run("train", *words, "max_steps=1").returncode, 0)  # with room to measure the drive
            free = shutil.disk_usage(folder).free
            with open(os.path.join(folder, "filler"), "wb") as file:
                os.posix_fallocate(file.fileno(), 0, free - (64 + 48) * MIB)  # so much is kept back; two checkpoints
            done = run("resume", out, "--json", "max_steps=8")
            self.refuse(done, 1, "is full", f"the drive of '{folder}/", "free ", "save_total_limit", "sluice resume")
            kept = int(re.search(r"everything up to step (\d+) is kept", done.stderr).group(1))
            self.assertIn(kept, range(2, 8))
            self.refuse(run("resume", out, "--json"), 1, "is full", "free ")
            os.remove(os.path.join(folder, "filler"))
            done = run("resume", out, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(steps_of(done), list(range(kept + 1, 9)))
            self.assertEqual(self.logged(out), list(range(1, 9)))
            self.assertEqual(self.checkpoints(out), list(range(1, 9)))
            self.assertEqual(fingerprint(out), fingerprint(whole))

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
                self.assertEqual(self.checkpoints(out), [2])
                done = run("resume", out, "--json", "save_strategy=no")
                self.refuse(done, 1, "is full", "the model takes", "up to step 8 is kept")
                shutil.rmtree(os.path.join(out, "checkpoint-2"))
                done = run("resume", out, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(fingerprint(out), fingerprint(whole))

            self.on_small_drive(8 * MIB, fill)


class Numbers(Runs):
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
        self.assertEqual(self.logged(out), [1, 2, 3])
        self.refuse(run("resume", out, "--json", "learning_rate=1e-3"), 2, "step 4:", "--from checkpoint-2")
        done = run("resume", out, "--json", "--from", "checkpoint-1", "learning_rate=1e-3", "weight_decay=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(steps_of(done), list(range(2, 9)))
        with open(os.path.join(out, "config.yaml")) as file:
            self.assertIn("\nlearning_rate: 0.001\n", file.read())  # what it goes on with next time too


class GoingBack(Runs):
    def test_from_a_checkpoint_a_run_goes_on_to_the_same_bits(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            settings = ("save_steps=2", *budgets)
            out, _ = self.finish("back" + name, *settings)
            expected = {step: fingerprint(os.path.join(out, f"checkpoint-{step}")) for step in (2, 4, 6, 8)}
            config = self.path("back" + name + ".yaml")
            for words in (["resume", out, "--from", "checkpoint-4"],
                          ["train", config, *settings, f"resume_from_checkpoint={out}/checkpoint-4/"]):
                done = run(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("going back from step 8 to step 4: checkpoint-6, checkpoint-8, and what was logged since "
                              "is dropped", done.stderr)
                self.assertEqual(self.logged(out), list(range(1, 9)))
                for step, wanted in expected.items():
                    self.assertEqual(fingerprint(os.path.join(out, f"checkpoint-{step}")), wanted)
            # Another way from there: what came later is gone.
            done = run("resume", out, "--from", os.path.join(out, "checkpoint-4"), "max_steps=5", "--json")
            self.assertEqual(steps_of(done), [5])
            self.assertEqual(self.checkpoints(out), [2, 4])
            with open(os.path.join(out, "trainer_state.json")) as file:
                self.assertEqual([entry["step"] for entry in json.load(file)["log_history"]], [1, 2, 3, 4, 5])

    def test_what_is_not_a_checkpoint_of_the_run_is_refused(self):
        out, _ = self.finish("mine", "max_steps=2", "save_steps=1")
        other, words = self.words("other")
        self.refuse(run("resume", out, "--from", "checkpoint-7"), 2, "no checkpoint-7", "it has checkpoint-1")
        self.refuse(run("resume", out, "--from", "step7"), 2, "'step7'", "checkpoint-100")
        self.refuse(run("resume", out, "--from", self.path("elsewhere", "checkpoint-1")), 2, "sluice resume", "base_model")
        self.refuse(run("train", *words, f"resume_from_checkpoint={out}/checkpoint-1"), 2, out, other, "base_model")
        self.assertEqual(self.checkpoints(out), [1, 2])

    def test_a_run_goes_on_only_with_what_it_began_with(self):
        out, _ = self.finish("began", "max_steps=2")
        larger = self.path("larger")
        run("model", "init", "llama-tiny", larger, "--layers", 3, "--tokenizer", os.path.join(EXAMPLE, "tokenizer"))
        _, words = self.words("began")
        for change in (f"base_model={larger}", "seed=7", "sequence_len=64"):
            self.refuse(run("train", *words, change, "resume_from_checkpoint=latest"), 2, change.split("=")[0], out)
            self.refuse(run("resume", out, change), 2, change.split("=")[0], out)
        moved = self.path("moved-base")
        os.rename(self.base, moved)
        try:
            shutil.copytree(larger, self.base)
            self.refuse(run("resume", out, "--json", "max_steps=3"), 2, "state of another model")
        finally:
            shutil.rmtree(self.base)
            os.rename(moved, self.base)


class Folders(Runs):
    def test_a_folder_takes_one_run_at_a_time(self):
        out, words = self.words("busy", "max_steps=100000")
        child = subprocess.Popen([SLUICE, "train", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.readline()
        try:
            for again in (["train", *words], ["train", *words, "overwrite_output_dir=true"], ["resume", out]):
                self.refuse(run(*again), 2, f"'{out}' is in use by process {child.pid}")
        finally:
            child.kill()
            child.communicate()

    def test_a_run_is_replaced_only_when_that_is_asked_for(self):
        out, _ = self.finish("replaced", "max_steps=4", "save_steps=1")
        _, words = self.words("replaced", "max_steps=2", "save_steps=2", "seed=5")
        self.refuse(run("train", *words), 2, "sluice resume", "overwrite_output_dir")
        self.assertEqual(self.checkpoints(out), [1, 2, 3, 4])
        done = run("train", *words, "overwrite_output_dir=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("are removed", done.stderr)
        self.assertEqual(self.checkpoints(out), [2])
        self.assertEqual(self.logged(out), [1, 2])
        fresh, _ = self.finish("fresh", "max_steps=2", "seed=5")
        self.assertEqual(fingerprint(out), fingerprint(fresh))

    def test_what_cannot_fit_is_said_tier_by_tier_with_what_would_fit(self):
        out, words = self.words("cannot-fit", "gpu_memory=3MiB", "host_memory=8MiB")
        words.remove("--json")
        done = run("train", *words)
        self.refuse(done, 1, "no schedule fits")
        self.assertRegex(done.stderr, r"of device memory \(3 MiB given\), .* of host memory \(8 MiB given\) and .* drives")
        changes = done.stderr[done.stderr.index("What would do"):done.stderr.index("sluice: ")]
        self.assertEqual(changes.count(" instead of "), 4, changes)  # three, one with a shorter sequence too
        both = re.search(r"gpu_memory (\d+) MiB and\s+host_memory (\d+) MiB", changes).groups()
        self.assertFalse(os.path.exists(os.path.join(out, "run.json")))
        _, words = self.words("cannot-fit", f"gpu_memory={both[0]}MiB", f"host_memory={both[1]}MiB", "max_steps=1")
        done = run("train", *words)
        self.assertEqual(done.returncode, 0, done.stderr)


class Data(Runs):
    def write(self, name, *rows):
        path = self.path(name)
        with open(path, "w") as file:
            file.writelines(row + "\n" for row in rows)
        return path

    def test_data_that_cannot_be_used_is_refused_and_bad_rows_are_left_out_on_request(self):
        good = '{"prompt": "a gate", "completion": "opens"}'
        empty = self.write("empty.jsonl")
        self.refuse(run("train", *self.words("empty")[1], f"datasets.0.path={empty}"), 2, empty, "nothing to learn")
        bad = self.write("bad.jsonl", good, '{"prompt": 7, "completion": "x"}', good, "not json", good)
        out, words = self.words("bad", f"datasets.0.path={bad}", "max_steps=2")
        self.refuse(run("train", *words), 2, "2 bad rows", bad + ":2:prompt", "--skip-bad")
        done = run("train", *words, "--skip-bad")
        self.assertEqual(done.returncode, 0, done.stderr)
        for place in (":2:prompt:", ":4:"):
            self.assertIn(bad + place, done.stderr)
        self.assertEqual(steps_of(run("resume", out, "--json", "max_steps=3")), [3])  # still without them

    def test_a_template_that_the_model_lacks_is_asked_for(self):
        plain = self.path("plain")
        shutil.copytree(self.base, plain)
        with open(os.path.join(plain, "tokenizer_config.json")) as file:
            settings = json.load(file)
        settings.pop("chat_template", None)
        with open(os.path.join(plain, "tokenizer_config.json"), "w") as file:
            json.dump(settings, file)
        if os.path.exists(os.path.join(plain, "chat_template.jinja")):
            os.remove(os.path.join(plain, "chat_template.jinja"))
        chat = self.write("chat.jsonl", '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}')
        _, words = self.words("plain-run", f"base_model={plain}", f"datasets.0.path={chat}")
        self.refuse(run("train", *words), 2, "chat_template", plain)

    def test_of_each_data_set_the_first_rows_are_taken(self):
        rows = [json.dumps({"prompt": "gate %d" % idx, "completion": " opens"}) for idx in range(9)]
        one, two = self.write("one.jsonl", *rows[:4]), self.write("two.jsonl", *rows[4:])
        first = self.write("first.jsonl", *rows[:3], *rows[4:7])
        cut, _ = self.finish("cut", f"datasets=[{{path: {one}}}, {{path: {two}}}]", "max_samples=3", "max_steps=3")
        same, _ = self.finish("same", f"datasets=[{{path: {first}}}]", "max_steps=3")
        self.assertEqual(fingerprint(cut), fingerprint(same))


class Best(Runs):
    """A held-out loss that falls, then rises: few rows learned by heart, with a learning rate that is far too high."""

    def settings(self):
        return ["gradient_accumulation_steps=1", "learning_rate=2e-2", "lr_scheduler=constant", "max_samples=8",
                f"test_datasets=[{{path: {EXAMPLE}/held_out.jsonl}}]", "eval_strategy=steps", "eval_steps=1",
                "save_strategy=steps", "save_steps=1", "max_steps=14", "load_best_model_at_end=true"]

    def evaluations(self, done):
        return {event["step"]: event["loss"] for event in map(json.loads, done.stdout.splitlines())
                if event["event"] == "evaluation"}

    def test_the_run_stops_when_patience_is_over_and_the_best_checkpoint_is_the_result(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            out, done = self.finish("best" + name, *self.settings(), "early_stopping_patience=3", "save_total_limit=2",
                                    *budgets)
            losses = self.evaluations(done)
            best = min(losses, key=losses.get)
            last = max(losses)
            self.assertLess(last, 14, "the run should have stopped early")
            self.assertEqual(last, best + 3)
            self.assertEqual(self.checkpoints(out), [best, last])
            self.assertEqual(fingerprint(out), fingerprint(os.path.join(out, f"checkpoint-{best}")))
            with open(os.path.join(out, "trainer_state.json")) as file:
                state = json.load(file)
            self.assertEqual(state["best_metric"], losses[best])
            self.assertEqual(state["best_model_checkpoint"], os.path.join(out, f"checkpoint-{best}"))
            # It has ended: to resume it changes nothing. With more patience it goes on, knowing the best.
            before = fingerprint(out)
            self.assertEqual(steps_of(run("resume", out, "--json")), [])
            self.assertEqual(fingerprint(out), before)
            done = run("resume", out, "--json", "early_stopping_patience=4")
            self.assertEqual(steps_of(done)[0], last + 1)

    def test_one_checkpoint_may_stay_and_the_best_beside_it(self):
        out, done = self.finish("limit1", *self.settings(), "save_total_limit=1")
        losses = self.evaluations(done)
        best = min(losses, key=losses.get)
        self.assertLess(best, 14)
        self.assertEqual(self.checkpoints(out), [best, 14])
        out, _ = self.finish("limit3", *self.settings(), "save_total_limit=3")
        self.assertEqual(self.checkpoints(out), [best, 13, 14])

    def test_a_run_that_is_killed_evaluates_and_stops_as_one_that_was_not(self):
        for name, budgets in (("memory", ()), ("drives", ON_DRIVES)):
            settings = [*self.settings(), "early_stopping_patience=3", *budgets]
            whole, done = self.finish("unkilled" + name, *settings)
            expected = self.evaluations(done)
            out, words = self.words("killed" + name, *settings)
            child = subprocess.Popen([SLUICE, "train", *words], stdout=subprocess.PIPE, text=True)
            for line in child.stdout:
                if json.loads(line).get("step", 0) == 4:
                    child.kill()
            child.stdout.close()
            child.wait()
            done = run("resume", out, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(out, "trainer_log.jsonl")) as file:
                logged = {entry["current_steps"]: entry["eval_loss"] for entry in map(json.loads, file)
                          if "eval_loss" in entry}
            self.assertEqual(logged, expected)
            self.assertEqual(self.checkpoints(out), self.checkpoints(whole))
            self.assertEqual(fingerprint(out), fingerprint(whole))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
