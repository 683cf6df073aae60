#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end: a run touches its own files alone, and finds them again. Usage: run_safety_test.py SLUICE REPO [TEST]"""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import unittest

from handbook_runs import ON_DRIVES, TRAIN, ShortSteps, checkpoints, fingerprint, logged_steps, steps_of
from sluice_process import run, start


def tree_of(folder):
    """Every file below a folder with its contents' hash, and every folder; links are not followed."""
    tree = {}
    for place, folders, files in os.walk(folder):
        for name in folders:
            tree[os.path.relpath(os.path.join(place, name), folder)] = "folder"
        for name in files:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                tree[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return tree


def spellings(folder, scratch):
    """Twelve ways to name a folder."""
    parent, name = os.path.split(folder)
    link = os.path.join(scratch, "link-to-" + name)
    parent_link = os.path.join(scratch, "link-above-" + name)
    for target, path in ((folder, link), (parent, parent_link)):
        if not os.path.lexists(path):
            os.symlink(target, path)
    return [folder, folder + "/", folder + "//", folder + "/.", f"{parent}/./{name}", f"{parent}//{name}",
            f"{folder}/none/..", f"{parent}/../{os.path.basename(parent)}/{name}", os.path.relpath(folder), link,
            link + "/", f"{parent_link}/{name}"]


class OutputDir(ShortSteps):
    def test_no_folder_that_a_configuration_names_is_taken_however_it_is_spelled(self):
        place = self.path("named")
        scratch = self.path("scratch")
        os.makedirs(scratch)
        base, blobs, data, held_out, templates, cache = (os.path.join(place, name) for name in
                                                         ("models/base", "models/blobs", "data", "held", "jinja", "nvme"))
        shutil.copytree(self.base, base)
        for folder in (blobs, data, held_out, templates, cache):
            os.makedirs(folder)
        # As in Hugging Face's cache: the shard is a link into another folder.
        os.rename(os.path.join(base, "model.safetensors"), os.path.join(blobs, "5f3a"))
        os.symlink("../blobs/5f3a", os.path.join(base, "model.safetensors"))
        shutil.copy(TRAIN, os.path.join(data, "rows.jsonl"))
        shutil.copy(TRAIN, os.path.join(held_out, "rows.jsonl"))
        with open(os.path.join(templates, "chat.jinja"), "w") as file:
            file.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        config = os.path.join(scratch, "config.yaml")
        with open(config, "w") as file:
            json.dump({"base_model": base, "datasets": [{"path": os.path.join(data, "rows.jsonl")}],
                       "test_datasets": [{"path": os.path.join(held_out, "rows.jsonl")}], "cache": [cache],
                       "chat_template": os.path.join(templates, "chat.jinja"), "sequence_len": 128, "max_steps": 1}, file)
        before = tree_of(place)
        for folder in (base, blobs, data, held_out, templates, cache, os.path.dirname(base), place):
            for spelled in spellings(folder, scratch):
                for more in ((), ("overwrite_output_dir=true",)):
                    done = run("train", config, f"output_dir={spelled}", *more)
                    self.refuse(done, 2, "output_dir")
        for folder in ("/", "/etc", os.path.expanduser("~") if os.listdir(os.path.expanduser("~")) else "/usr"):
            self.refuse(run("train", config, f"output_dir={folder}", "overwrite_output_dir=true"), 2, "output_dir")
        self.assertEqual(tree_of(place), before)

    def test_a_folder_with_files_of_its_own_is_refused_and_stays_as_it_is(self):
        out, words = self.words("mine")
        for name in ("state/notes", "runs/old", "checkpoint-7/model.safetensors", "todo.txt"):
            os.makedirs(os.path.dirname(os.path.join(out, name)), exist_ok=True)
            with open(os.path.join(out, name), "w") as file:
                file.write(name)
        before = tree_of(out)
        for more in ((), ("overwrite_output_dir=true",)):
            self.refuse(run("train", *words, *more), 2, "is not empty", "checkpoint-7")
        self.assertEqual(tree_of(out), before)

    def test_what_somebody_puts_into_a_runs_folder_stays(self):
        out, words = self.words("shared", "save_steps=1", "save_total_limit=2", "max_steps=3")
        self.succeed("train", *words)
        for name in ("checkpoint-9/model.safetensors", "checkpoint-2/notes.txt", "state/mine", "runs/mine",
                     "data/rows.jsonl", "readme.md"):
            os.makedirs(os.path.dirname(os.path.join(out, name)), exist_ok=True)
            with open(os.path.join(out, name), "w") as file:
                file.write(name)
        mine = {name: digest for name, digest in tree_of(out).items()
                if digest == hashlib.sha256(name.encode()).hexdigest()}
        self.assertEqual(len(mine), 6)
        self.succeed("resume", out, "--json", "max_steps=6")
        self.assertEqual(checkpoints(out), [2, 5, 6, 9])  # 2 holds the notes alone
        self.succeed("train", *words, "overwrite_output_dir=true")
        after = tree_of(out)
        self.assertEqual({name: after.get(name) for name in mine}, mine)

    def test_a_file_in_the_place_of_a_result_is_not_replaced(self):
        out, words = self.words("in-the-way", "max_steps=100000", "save_strategy=no")
        child = start("train", *words)
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.communicate()
        theirs = os.path.join(out, "model.safetensors")
        with open(theirs, "w") as file:
            file.write("not yours")
        done = run("resume", out, "--json", "max_steps=1")
        self.refuse(done, 2, "model.safetensors", "move the file away")
        with open(theirs) as file:
            self.assertEqual(file.read(), "not yours")
        os.remove(theirs)
        self.succeed("resume", out, "--json", "max_steps=1")
        self.assertGreater(os.path.getsize(theirs), 1000)

    def test_a_run_that_does_not_start_leaves_nothing_behind(self):
        cache = self.path("unused")
        for number, (change, code) in enumerate((("datasets.0.path=/nowhere.jsonl", 2), ("gpu_memory=3MiB", 1),
                                                 ("chat_template=/nowhere.jinja", 2), ("base_model=/nowhere", 2))):
            out, words = self.words(f"deep{number}/er/unborn")
            done = run("train", *words, change, f"cache=[{cache}]", "host_memory=8MiB", f"output_dir={out}")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertFalse(os.path.exists(self.path(f"deep{number}")) and os.path.exists(out), done.stderr)
        self.assertFalse(os.path.exists(cache))

    def words(self, name, *more, **keys):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        return super().words(name, *more, **keys)


class Moved(ShortSteps):
    def stop_at(self, name, *settings):
        out, words = self.words(name, *settings)
        code, errors = self.stop(words, 2, signal.SIGINT)
        self.assertEqual(code, 130, errors)
        return out

    def test_a_moved_run_finds_its_state_in_the_cache(self):
        whole, _ = self.finish("unmoved", "lr_scheduler=constant", *ON_DRIVES)
        cache = self.path("nvme")
        out = self.stop_at("moving", f"cache=[{cache}]", "lr_scheduler=constant", *ON_DRIVES)
        moved = self.path("elsewhere", "moved")
        os.makedirs(os.path.dirname(moved))
        os.rename(out, moved)
        listed = json.loads(self.succeed("store", "list", cache, "--json").stdout)
        self.assertEqual([(entry["use"], entry["output_dir"]) for entry in listed], [("no run refers to it", out)])
        self.succeed("resume", moved, "--json", "max_steps=4")
        listed = json.loads(self.succeed("store", "list", cache, "--json").stdout)
        self.assertEqual([(entry["use"], entry["output_dir"]) for entry in listed], [("kept for its run", moved)])
        # And when the drive has another mount point.
        os.rename(cache, cache + "2")
        self.refuse(run("resume", moved, "--json", "max_steps=8"), 2, cache, "cache=[")
        self.succeed("resume", moved, "--json", f"cache=[{cache}2]", "max_steps=8")
        self.assertEqual(fingerprint(moved), fingerprint(whole))
        self.assertEqual(logged_steps(moved), list(range(1, 9)))

    def test_a_copy_of_a_run_does_not_share_its_state(self):
        out = self.stop_at("copied", f"cache=[{self.path('nvme3')}]", *ON_DRIVES)
        copy = self.path("copy")
        shutil.copytree(out, copy)
        self.refuse(run("resume", copy, "--json"), 2, "is a copy of the run in", out)
        _, words = self.words("copy", "max_steps=1", f"cache=[{self.path('nvme3')}]", *ON_DRIVES)
        self.succeed("train", *words, "overwrite_output_dir=true")  # and leaves the original's state alone
        self.succeed("resume", out, "--json")

    def test_state_that_no_run_refers_to_is_deleted_once_somebody_agrees(self):
        cache = self.path("nvme4")
        gone = self.stop_at("gone", f"cache=[{cache}]", *ON_DRIVES)
        kept = self.stop_at("kept", f"cache=[{cache}]", *ON_DRIVES)
        shutil.rmtree(gone)
        with open(os.path.join(cache, "mine.txt"), "w") as file:
            file.write("mine")
        done = run("store", "clean", cache, stdin=subprocess.DEVNULL)
        self.refuse(done, 2, "--yes")
        self.assertEqual(len(os.listdir(cache)), 3)
        done = self.succeed("store", "clean", cache, "--yes")
        self.assertIn(gone, done.stdout)
        self.assertEqual(len(os.listdir(cache)), 2)
        self.assertIn("mine.txt", os.listdir(cache))
        self.succeed("resume", kept, "--json")

    def test_relative_paths_are_those_of_the_folder_where_the_run_began(self):
        work = self.path("work")
        os.makedirs(work)
        shutil.copytree(self.base, os.path.join(work, "base"))
        shutil.copy(TRAIN, os.path.join(work, "rows.jsonl"))
        with open(os.path.join(work, "config.yaml"), "w") as file:
            json.dump({"base_model": "./base", "datasets": [{"path": "rows.jsonl"}], "output_dir": "out",
                       "cache": ["nvme"], "sequence_len": 128, "max_steps": 2, "threads": 2}, file)
        done = run("train", "config.yaml", "--json", cwd=work)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = os.path.join(work, "out")
        done = run("resume", "work/out", "--json", "max_steps=4", cwd=os.path.dirname(work))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(logged_steps(out), [1, 2, 3, 4])
        with open(os.path.join(out, "config.yaml")) as file:
            self.assertIn(f"\nbase_model: {work}/base\n", "\n" + file.read())


class Records(ShortSteps):
    def test_no_lock_file_stays_and_the_lock_cannot_be_deleted(self):
        out, words = self.words("held", "max_steps=100000", *ON_DRIVES)
        child = start("train", *words)
        child.stdout.readline()
        try:
            self.assertEqual([name for name in tree_of(out) if "lock" in name], [])
            os.remove(os.path.join(out, "run.json"))
            self.refuse(run("resume", out), 2, "is in use by process", str(child.pid))
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()

    def test_a_run_goes_on_without_its_record_and_with_a_damaged_trainer_state(self):
        for name, harm in (("gone", lambda out: os.remove(os.path.join(out, "run.json"))),
                           ("damaged", lambda out: shutil.copy(__file__, os.path.join(out, "run.json"))),
                           ("state", lambda out: os.truncate(os.path.join(out, "trainer_state.json"), 40))):
            whole, _ = self.finish("unharmed", "save_steps=2", "overwrite_output_dir=true")
            out, words = self.words("harmed-" + name, "save_steps=2", "max_steps=8")
            code, errors = self.stop(words, 3, signal.SIGTERM)
            self.assertEqual(code, 130, errors)
            harm(out)
            self.refuse(run("train", *words), 2, "sluice resume") if name != "damaged" else None
            done = self.succeed("resume", out, "--json")
            self.assertIn("made anew", done.stderr)
            self.assertEqual(fingerprint(out), fingerprint(whole))
            self.assertEqual(logged_steps(out), list(range(1, 9)))
            with open(os.path.join(out, "trainer_state.json")) as file:
                history = json.load(file)["log_history"]
            self.assertEqual([entry["step"] for entry in history], list(range(1, 9)))
            self.succeed("train", *words, "overwrite_output_dir=true")

    def test_changed_inputs_are_named_and_refused(self):
        place = self.path("inputs")
        os.makedirs(place)
        rows, template, base = (os.path.join(place, name) for name in ("rows.jsonl", "chat.jinja", "base"))
        shutil.copy(TRAIN, rows)
        shutil.copytree(self.base, base)
        with open(template, "w") as file:
            file.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        out, words = self.words("fingerprinted", "max_steps=2", "train_on_inputs=true", base_model=base,
                                datasets=[{"path": rows}], chat_template=template)
        self.succeed("train", *words)

        def flip(path, at):
            with open(path, "r+b") as file:
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 1]))

        for path, key, at in ((os.path.join(base, "model.safetensors"), "base_model", -1),
                              (os.path.join(base, "tokenizer.json"), "base_model", 3), (rows, "datasets", 40),
                              (template, "chat_template", 30)):
            with open(path, "rb") as file:
                before = file.read()
            flip(path, at % len(before))
            done = run("resume", out, "--json", "max_steps=3")
            self.assertEqual(done.returncode, 2 if "tokenizer" not in path else done.returncode, done.stderr)
            if "tokenizer" not in path:
                self.refuse(done, 2, f"{key}: the contents of {path} have changed", "--accept-changes")
            with open(path, "wb") as file:
                file.write(before)
        os.utime(rows)  # a copy of the same rows is the same
        self.succeed("resume", out, "--json", "max_steps=3")
        with open(rows, "a") as file:
            file.write('{"messages": [{"role": "user", "content": "One"}, {"role": "assistant", "content": "more"}]}\n')
        self.refuse(run("resume", out, "--json", "max_steps=4"), 2, f"datasets: {rows} has", "--accept-changes")
        done = self.succeed("resume", out, "--json", "max_steps=4", "--accept-changes")
        self.assertIn("going on with what has changed", done.stderr)
        self.assertEqual(steps_of(done), [4])
        self.succeed("resume", out, "--json", "max_steps=5")


class Tree(ShortSteps):
    """Whatever is typed, only files of runs change."""

    NUMBER = int(os.environ.get("SLUICE_COMMANDS", "60"))

    def test_random_commands_change_nothing_that_is_not_a_runs_own(self):
        place = self.path("world")
        dice = random.Random(11)
        names = ("a", "b", "c/d", "full", "base", "data", "nvme", "a/checkpoint-2", "link")
        os.makedirs(os.path.join(place, "full", "state"))
        os.makedirs(os.path.join(place, "data"))
        shutil.copytree(self.base, os.path.join(place, "base"))
        rows = os.path.join(place, "data", "rows.jsonl")
        shutil.copy(TRAIN, rows)
        os.symlink("full", os.path.join(place, "link"))
        for name in ("full/model.safetensors", "full/state/slices.dat", "full/run.txt", "data/notes"):
            with open(os.path.join(place, name), "w") as file:
                file.write(name)

        def runs_own():
            """Files that the records of runs list, and their state."""
            own = set()
            for folder, _, files in os.walk(place):
                if "run.json" not in files:
                    continue
                try:
                    with open(os.path.join(folder, "run.json")) as file:
                        record = json.load(file)
                except ValueError:
                    continue
                own.add(folder)
                own.update(os.path.join(folder, name) for name in record["files"])
                own.update(os.path.join(folder, store) for store in record["stores"])
            return own

        def foreign(tree, own):
            def is_own(name):
                path = os.path.join(place, name)
                while path != place:
                    if path in own and not (os.path.isdir(path) and os.path.exists(os.path.join(path, "run.json"))
                                            and path != os.path.join(place, name)):
                        return True
                    path = os.path.dirname(path)
                return False
            return {name: digest for name, digest in tree.items() if digest != "folder" and not is_own(name)}

        planted = 0
        for number in range(self.NUMBER):
            own = runs_own()
            # Now and then somebody puts a file into a run's folder.
            for folder in [path for path in own if os.path.exists(os.path.join(path, "run.json"))]:
                if dice.random() < 0.3:
                    planted += 1
                    name = dice.choice((f"notes{planted}", f"checkpoint-{planted}00/mine", f"runs/mine{planted}"))
                    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                    with open(os.path.join(folder, name), "w") as file:
                        file.write(name)
            before = foreign(tree_of(place), own)
            out = os.path.join(place, dice.choice(names))
            config = os.path.join(self.path("commands") + ".yaml")
            with open(config, "w") as file:
                json.dump({**self.settings, "base_model": os.path.join(place, "base"), "datasets": [{"path": rows}],
                           "sequence_len": 128, "max_steps": dice.choice((1, 3, 5)), "save_steps": dice.choice((1, 2)),
                           "save_total_limit": dice.choice((1, 2)), "output_dir": out,
                           "overwrite_output_dir": dice.random() < 0.5,
                           **({"cache": [os.path.join(place, "nvme")]} if dice.random() < 0.3 else {})}, file)
            command = dice.choice((["train", config, "--json"], ["train", config, "--json"], ["resume", out, "--json"],
                                   ["store", "clean", place, os.path.join(place, "nvme"), "--yes"],
                                   ["merge", "--model", os.path.join(place, "base"), "--adapter", out, "--output",
                                    os.path.join(place, dice.choice(names))],
                                   ["export", "--model", os.path.join(place, "base"), "--gguf",
                                    os.path.join(place, dice.choice(names))],
                                   ["model", "init", "llama-tiny", os.path.join(place, dice.choice(names)), "--layers", 1]))
            child = start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if dice.random() < 0.4:
                for _ in range(dice.choice((0, 1, 2, 3))):
                    child.stdout.readline()
                child.send_signal(dice.choice((signal.SIGKILL, signal.SIGINT, signal.SIGHUP)))
            child.communicate()
            after = tree_of(place)
            for name, digest in before.items():
                self.assertEqual(after.get(name), digest, f"{number}: {command} changed {name}")
            # What model init and merge have made is nobody's run: start afresh there now and then.
            if dice.random() < 0.15:
                for name in ("a", "b", "c"):
                    shutil.rmtree(os.path.join(place, name), ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
