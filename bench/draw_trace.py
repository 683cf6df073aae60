#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the lanes of a trace (sluice bench step --trace FILE, sluice train --trace) as SVG: the last seconds of it, and
two cut-outs. Usage: draw_trace.py TRACE.json SECONDS [FIRST,LENGTH ...] > timeline.svg"""
import gzip
import json
import sys

LANES = ["nvme->host", "host->device", "compute", "device->host", "cpu-optimizer", "host->nvme"]
COLOURS = {"weights": "#3b6fb6", "boundary": "#7fb069", "gradient": "#d1495b", "forward": "#5b8dd6",
           "backward": "#2f4b7c", "head": "#b07aa1", "embedding": "#9c755f", "optimizer": "#e0a030", "other": "#888888"}
WIDTH, LEFT, ROW, BAR = 1000, 110, 22, 14


def kind_of(lane, name):
    if lane == "cpu-optimizer":
        return "optimizer"
    if lane != "compute":
        return {"w": "weights", "x": "boundary", "g": "gradient"}.get(name.split("/")[0], "other")
    for kind in ("embedding", "forward", "backward", "head"):
        if kind in name:
            return kind
    return "other"


def read(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as file:
        data = json.load(file)
    events = data["traceEvents"] if isinstance(data, dict) else data
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
             if e.get("ph") == "M" and e.get("name") == "thread_name"}
    spans = []
    for event in events:
        if event.get("ph") != "X":
            continue
        lane = names.get((event["pid"], event["tid"]))
        begin = event["ts"] / 1e6
        spans.append((lane, begin, begin + event["dur"] / 1e6, kind_of(lane, event["name"])))
    return spans


def panel(spans, begin, length, top, title):
    out = [f'<text x="0" y="{top - 8}" font-weight="bold">{title}</text>']
    lanes = [lane for lane in LANES if any(s[0] == lane for s in spans)]
    scale = (WIDTH - LEFT) / length
    for row, lane in enumerate(lanes):
        y = top + row * ROW
        out.append(f'<text x="0" y="{y + BAR - 3}">{lane.replace(">", "&gt;")}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT}" height="{BAR}" fill="#f1f1f1"/>')
        merged = []  # [begin, end, kind] in pixels
        for _, first, last, kind in sorted((s for s in spans if s[0] == lane), key=lambda s: s[1]):
            a, b = (max(first, begin) - begin) * scale, (min(last, begin + length) - begin) * scale
            if b <= a:
                continue
            if merged and merged[-1][2] == kind and a - merged[-1][1] < 0.6:
                merged[-1][1] = max(merged[-1][1], b)
            else:
                merged.append([a, b, kind])
        for a, b, kind in merged:
            out.append(f'<rect x="{LEFT + a:.1f}" y="{y}" width="{max(b - a, 0.5):.1f}" height="{BAR}" '
                       f'fill="{COLOURS[kind]}"/>')
    bottom = top + len(lanes) * ROW
    for tick in range(6):
        x = LEFT + (WIDTH - LEFT) * tick / 5
        anchor = "end" if tick == 5 else "start" if tick == 0 else "middle"
        label = length * tick / 5
        text = f"{label:.1f} s" if length > 2 else f"{label * 1e3:.0f} ms"
        out.append(f'<text x="{x:.0f}" y="{bottom + 10}" text-anchor="{anchor}" fill="#666">{text}</text>')
    return out, bottom + 44


def main():
    spans = read(sys.argv[1])
    length = float(sys.argv[2])
    end = max(s[2] for s in spans if s[0] == "compute")
    panels = [(end - length, length, "One step")]
    for cut in sys.argv[3:]:
        first, part = (float(word) for word in cut.split(","))
        panels.append((end - length + first, part, f"From {first:g} s on"))
    top, body = 24, []
    for begin, part, title in panels:
        drawn, top = panel(spans, begin, part, top, title)
        body += drawn
    x = 0
    for kind, colour in COLOURS.items():
        if kind == "other":
            continue
        body.append(f'<rect x="{x}" y="{top - 16}" width="10" height="10" fill="{colour}"/>')
        body.append(f'<text x="{x + 14}" y="{top - 7}">{kind}</text>')
        x += 22 + 7 * len(kind)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" font-family="sans-serif" '
          f'font-size="11"><rect width="100%" height="100%" fill="white"/>')
    print("\n".join(body))
    print("</svg>")


if __name__ == "__main__":
    main()
