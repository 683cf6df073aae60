// SPDX-License-Identifier: Apache-2.0
// Renders chat templates with @huggingface/jinja: node render_templates.mjs NODE_MODULES < jobs.json
// Jobs are [{"template": ..., "variables": {...}}, ...]; prints an array of texts, null where rendering fails.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const require = createRequire(resolve(process.argv[2], "x.js"));
const { Template } = require("@huggingface/jinja");

const texts = JSON.parse(readFileSync(0, "utf8")).map(({ template, variables }) => {
  try {
    return new Template(template).render(variables);
  } catch {
    return null;
  }
});
console.log(JSON.stringify(texts));
