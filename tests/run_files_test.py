#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of a run's folder, read by nothing of Sluice's own. Usage: run_files_test.py RUN_LOG_TOOL"""

import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

TOOL = sys.argv.pop(1)


def crc32c(data):
    """Bit by bit, most significant bit first on reflected bytes: the definition, not the table that Sluice has."""
    def reflect(value, width):
        return int(format(value, f"0{width}b")[::-1], 2)

    register = 0xFFFFFFFF
    for byte in data:
        register ^= reflect(byte, 8) << 24
        for _ in range(8):
            register = (register << 1) ^ (0x1EDC6F41 if register & 0x80000000 else 0)
            register &= 0xFFFFFFFF
    return reflect(register, 32) ^ 0xFFFFFFFF


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (length_crc,) = struct.unpack_from("<I", data, at + 8)
        assert length_crc == masked(crc32c(data[at:at + 8])), f"checksum of the length at {at}"
        payload = data[at + 12:at + 12 + length]
        assert len(payload) == length, f"record at {at} is cut"
        (payload_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert payload_crc == masked(crc32c(payload)), f"checksum of the record at {at}"
        yield payload
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) for each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            raise AssertionError(f"wire type {kind}")
        yield number, value


def events(path):
    with open(path, "rb") as file:
        data = file.read()
    for payload in records(data):
        event = {"scalars": {}}
        for number, value in fields(payload):
            if number == 1:
                event["wall_time"] = value
            elif number == 2:
                event["step"] = value
            elif number == 3:
                event["file_version"] = value.decode()
            elif number == 5:
                for value_number, item in fields(value):
                    assert value_number == 1
                    scalar = dict(fields(item))
                    event["scalars"][scalar[1].decode()] = scalar[2]
            elif number == 7:
                event["session"] = dict(fields(value))[1]
            else:
                raise AssertionError(f"field {number}")
        yield event


class RunFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.dir = cls.scratch.name
        subprocess.run([TOOL, cls.dir], check=True, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def test_the_checksum_here_is_the_published_one(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(crc32c(bytes(32)), 0x8A9136AA)

    def test_event_files_are_what_tensorboard_reads(self):
        paths = sorted(glob.glob(self.path("runs", "demo", "events.out.tfevents.*")))
        self.assertEqual(len(paths), 2)
        first, second = (list(events(path)) for path in paths)
        for file in (first, second):
            self.assertEqual(file[0]["file_version"], "brain.Event:2")
            self.assertGreaterEqual(file[0]["wall_time"], 1.7e9)
        self.assertEqual([e["step"] for e in first[1:] if "train/loss" in e["scalars"]], list(range(1, 26)))
        self.assertEqual((first[1]["session"], first[1]["step"]), (1, 0))
        # A restart at 21 makes TensorBoard forget 21 to 25 of the first file.
        self.assertEqual((second[1]["session"], second[1]["step"]), (1, 21))
        self.assertEqual([e["step"] for e in second[2:] if "train/loss" in e["scalars"]], list(range(21, 41)))
        self.assertEqual([e["step"] for e in first + second if "eval/loss" in e["scalars"]], [10, 20, 30, 40])
        scalars = next(e for e in second if e.get("step") == 25)["scalars"]
        expected = {"train/loss": 0.8, "train/grad_norm": 125, "train/learning_rate": 25e-4, "train/epoch": 1.25,
                    "train/global_step": 25}
        self.assertEqual(set(scalars), set(expected))
        for tag, value in expected.items():
            self.assertAlmostEqual(scalars[tag], value, delta=abs(value) * 1e-6)

    def test_the_log_has_every_step_once_and_the_resumed_run_wins(self):
        with open(self.path("trainer_log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        training = [line for line in lines if "loss" in line]
        self.assertEqual([line["current_steps"] for line in training], list(range(1, 41)))
        self.assertEqual([line["grad_norm"] > 100 for line in training], [False] * 20 + [True] * 20)
        self.assertEqual([line["current_steps"] for line in lines if "eval_loss" in line], [10, 20, 30, 40])
        line = training[29]
        self.assertEqual(line["total_steps"], 40)
        self.assertEqual(line["percentage"], 75.0)
        self.assertEqual(line["epoch"], 1.5)
        self.assertAlmostEqual(line["loss"], 4 / math.sqrt(30))
        self.assertAlmostEqual(line["lr"], 30e-4)
        # The second process took 2 seconds for each of 10 steps and has 10 to go, at 500 tokens a second.
        self.assertEqual((line["elapsed_time"], line["remaining_time"]), ("0:00:20", "0:00:20"))
        self.assertEqual((line["throughput"], line["total_tokens"]), (500.0, 30000))

    def test_the_state_is_hugging_faces(self):
        # The fields of transformers.TrainerState that every version since 4.40 has; it refuses others.
        known = {"best_metric", "best_model_checkpoint", "epoch", "eval_steps", "global_step", "is_hyper_param_search",
                 "is_local_process_zero", "is_world_process_zero", "log_history", "logging_steps", "max_steps",
                 "num_input_tokens_seen", "num_train_epochs", "save_steps", "total_flos", "train_batch_size",
                 "trial_name", "trial_params"}
        for folder, step in (("checkpoint-20", 20), (".", 40)):
            with open(self.path(folder, "trainer_state.json"), encoding="utf-8") as file:
                state = json.load(file)
            self.assertEqual(set(state), known)
            self.assertEqual((state["global_step"], state["max_steps"], state["num_train_epochs"]), (step, 40, 2))
            self.assertEqual(state["best_metric"], 1.118)
            history = state["log_history"]
            self.assertEqual([entry["step"] for entry in history if "loss" in entry], list(range(1, step + 1)))
            self.assertEqual(set(history[0]), {"loss", "grad_norm", "learning_rate", "epoch", "step"})
            self.assertEqual(set(history[10]), {"eval_loss", "epoch", "step"})
            self.assertAlmostEqual(history[-1]["eval_loss"], 5 / math.sqrt(step))

    def test_the_picture_is_svg_with_a_line_for_the_loss_and_a_point_for_each_evaluation(self):
        root = ElementTree.parse(self.path("loss_curve.svg")).getroot()
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, name + "svg")
        raw, smooth = root.findall(name + "polyline")
        heights = [float(point.split(",")[1]) for point in raw.get("points").split()]
        self.assertEqual(len(heights), 40)
        self.assertEqual(heights, sorted(heights))  # the loss falls: on the screen, y grows
        self.assertEqual(len(smooth.get("points").split()), 40)
        self.assertEqual(len(root.findall(name + "circle")), 4 + 1)  # and one in the legend
        texts = {text.text for text in root.findall(name + "text")}
        self.assertLessEqual({"demo", "step", "loss", "training", "smoothed", "evaluation", "40"}, texts)

    def test_nothing_half_written_is_left(self):
        self.assertEqual(glob.glob(self.path("**", "*.part"), recursive=True), [])


if __name__ == "__main__":
    unittest.main()
