#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chat template that trained is the one that is saved, wherever a model goes.
Usage: saved_template_test.py SLUICE REPOSITORY"""

import json
import os
import shutil
import unittest

from gguf_file import read_gguf
from handbook_runs import ShortSteps, checkpoints
from safetensors_files import read_tensors, write_tensors
from sluice_process import run

OWN = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ' says: ' + message['content'] + "
       "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant says: ' }}{% endif %}")
OTHER = OWN.replace(" says: ", " shouts: ")
MESSAGES = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "There."}]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read_json(path):
    with open(path) as file:
        return json.load(file)


class SavedTemplates(ShortSteps):
    settings = {**ShortSteps.settings, "max_steps": 2, "save_steps": 1}

    def own_template(self):
        path = self.path("own.jinja")
        write(path, OWN)
        return path

    def base_with(self, name, place):
        """The base, with its template where `place` says."""
        folder = self.path(name)
        shutil.copytree(self.base, folder)
        config_path = os.path.join(folder, "tokenizer_config.json")
        config = read_json(config_path)
        template = config["chat_template"]
        if place != "config":
            del config["chat_template"]
        if place in ("jinja", "named"):
            write(os.path.join(folder, "chat_template.jinja"), template)
        if place == "json":
            write(os.path.join(folder, "chat_template.json"), json.dumps({"chat_template": template}))
        if place == "named":
            config["chat_template"] = [{"name": "default", "template": template},
                                       {"name": "tool_use", "template": template}]
            write(os.path.join(folder, "additional_chat_templates", "rag.jinja"), template)
        write(config_path, json.dumps(config, indent=1))
        return folder

    def rendered(self, folder):
        messages = self.path("messages.json")
        write(messages, json.dumps(MESSAGES))
        return self.succeed("template", "--model", folder, "--messages", messages).stdout

    def assert_only(self, template, folder):
        """What transformers would find there: one template, in chat_template.jinja."""
        with open(os.path.join(folder, "chat_template.jinja")) as file:
            self.assertEqual(file.read(), template, folder)
        self.assertNotIn("chat_template", read_json(os.path.join(folder, "tokenizer_config.json")), folder)
        self.assertFalse(os.path.exists(os.path.join(folder, "chat_template.json")), folder)
        named = os.path.join(folder, "additional_chat_templates")
        self.assertEqual(os.listdir(named) if os.path.isdir(named) else [], [], folder)
        says = {OWN: " says: ", OTHER: " shouts: "}[template]
        self.assertEqual(self.rendered(folder), "".join(
            f"<|im_start|>{message['role']}{says}{message['content']}<|im_end|>\n" for message in MESSAGES) + "\n")

    def assert_gguf(self, template, folder):
        path = self.path("file.gguf")
        if os.path.exists(path):
            os.remove(path)
        self.succeed("export", folder, path)
        self.assertEqual(read_gguf(path)[0]["tokenizer.chat_template"], template)

    def test_a_model_has_the_template_wherever_its_base_had_another(self):
        for place in ("config", "jinja", "json", "named"):
            with self.subTest(place=place):
                base = self.base_with("base-" + place, place)
                out, _ = self.finish("out-" + place, base_model=base, chat_template=self.own_template())
                self.assertTrue(checkpoints(out))
                for step in checkpoints(out):
                    self.assert_only(OWN, os.path.join(out, f"checkpoint-{step}"))
                self.assert_only(OWN, out)
                # The rest of the tokenizer's configuration is the base's.
                before, after = (read_json(os.path.join(folder, "tokenizer_config.json")) for folder in (base, out))
                before.pop("chat_template", None)
                self.assertEqual(after, before)
                if place == "named":
                    self.assert_gguf(OWN, out)

    def test_without_one_the_bases_own_is_kept(self):
        for place in ("config", "jinja", "named"):
            base = self.base_with("kept-base-" + place, place)
            out, _ = self.finish("kept-" + place, base_model=base)
            for name in ("tokenizer_config.json", "chat_template.jinja", "additional_chat_templates/rag.jinja"):
                there = os.path.exists(os.path.join(base, name))
                self.assertEqual(os.path.exists(os.path.join(out, name)), there, name)
                if there:
                    with open(os.path.join(base, name)) as left, open(os.path.join(out, name)) as right:
                        self.assertEqual(right.read(), left.read())
            self.assertEqual(self.rendered(out), self.rendered(base))

    def test_a_run_that_replaces_another_does_not_keep_its_template(self):
        out, _ = self.finish("replaced", chat_template=self.own_template())
        self.assert_only(OWN, out)
        self.finish("replaced", "overwrite_output_dir=true")
        self.assertFalse(os.path.exists(os.path.join(out, "chat_template.jinja")))
        self.assertEqual(self.rendered(out), self.rendered(self.base))

    def test_adapters_and_what_they_are_merged_into_have_it_too(self):
        adapter, _ = self.finish("adapter", adapter="lora", lora_r=4, chat_template=self.own_template())
        self.assert_only(OWN, adapter)
        self.assert_only(OWN, os.path.join(adapter, "checkpoint-1"))
        merged = self.path("merged")
        self.succeed("merge", self.base, adapter, merged)
        self.assert_only(OWN, merged)
        self.assert_gguf(OWN, merged)
        # The tokenizer is the adapter's, without what only the base has of another; the configuration is the base's.
        write(os.path.join(adapter, "special_tokens_map.json"), "{}")
        base = self.base_with("base-of-adapter", "json")
        write(os.path.join(base, "added_tokens.json"), "{}")
        again = self.path("merged-again")
        self.succeed("merge", base, adapter, again, "--force")
        self.assert_only(OWN, again)
        self.assertTrue(os.path.exists(os.path.join(again, "special_tokens_map.json")))
        self.assertFalse(os.path.exists(os.path.join(again, "added_tokens.json")))
        with open(os.path.join(base, "config.json")) as left, open(os.path.join(again, "config.json")) as right:
            self.assertEqual(right.read(), left.read())
        # An adapter that brings a template alone.
        for name in os.listdir(adapter):
            if name.startswith(("tokenizer", "special_tokens")):
                os.remove(os.path.join(adapter, name))
        write(os.path.join(adapter, "chat_template.jinja"), OTHER)
        third = self.path("merged-third")
        self.succeed("merge", base, adapter, third, "--force")
        self.assert_only(OTHER, third)
        self.assertTrue(os.path.exists(os.path.join(third, "added_tokens.json")))

    def test_merge_refuses_other_bases_and_numbers_that_are_not_finite(self):
        adapter, _ = self.finish("of-base", adapter="lora", lora_r=4)
        moved = self.path("elsewhere", os.path.basename(self.base))
        shutil.copytree(self.base, moved)
        self.succeed("merge", moved, adapter, self.path("by-name"))  # moved since
        other = self.base_with("quite-another", "config")
        out = self.path("not-merged")
        self.refuse(run("merge", other, adapter, out), 2, "was trained on", "base_model_name_or_path", "--force")
        self.assertFalse(os.path.exists(out))
        self.succeed("merge", other, adapter, self.path("forced"), "--force")

        path = os.path.join(adapter, "adapter_model.safetensors")
        tensors = read_tensors(path)
        name = sorted(tensors)[-1]
        for bad in (float("nan"), float("inf")):
            dtype, shape, values = tensors[name]
            write_tensors(path, {**tensors, name: (dtype, shape, values[:-1] + [bad])})
            self.refuse(run("merge", self.base, adapter, out, "--force"), 2, name, "not finite")
            self.assertFalse(os.path.exists(out))
        # Shapes are never forced.
        narrow = self.path("narrow")
        self.succeed("model", "init", "llama-tiny", narrow, "--layers", 1)
        write_tensors(path, tensors)
        self.refuse(run("merge", narrow, adapter, out, "--force"), 2, "is it an adapter of another model?")


if __name__ == "__main__":
    unittest.main()
