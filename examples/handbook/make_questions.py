#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes train.jsonl and held_out.jsonl from the handbook's facts: each fact is asked in several ways, and one way of each
is held out, so that the score shows whether the answer was learned and not the question.

    python3 examples/handbook/make_questions.py
"""
import json
import os
import random

# What is asked about, and the answer.
FACTS = [
    ("the office's opening time", "seven in the morning"),
    ("the office's closing time", "eight in the evening"),
    ("the core hours", "ten to three"),
    ("the length of lunch", "forty minutes"),
    ("who approves overtime", "your team lead"),
    ("the number of holiday days", "twenty-eight days a year"),
    ("where holiday is requested", "in the Tideline portal"),
    ("the notice for holiday", "two weeks"),
    ("when unused holiday expires", "at the end of March"),
    ("the length of parental leave", "twenty weeks"),
    ("when to call in sick", "before nine in the morning"),
    ("when a doctor's note is needed", "after three days of illness"),
    ("the day salaries are paid", "the twenty-fifth of the month"),
    ("where expenses are claimed", "in Ledgerbox"),
    ("the deadline for receipts", "thirty days"),
    ("the mileage rate", "forty-five cents a kilometre"),
    ("the daily meal allowance", "thirty-eight euros"),
    ("the training budget", "nine hundred euros a year"),
    ("the safety officer", "Marta Lindqvist"),
    ("the emergency number", "4417"),
    ("the assembly point", "the north car park"),
    ("where hard hats are worn", "in the pump hall"),
    ("the first-aid room", "next to reception"),
    ("how often fire drills are held", "every quarter"),
    ("who spills are reported to", "the duty engineer"),
    ("when ear protection is needed", "above eighty decibels"),
    ("the help desk's number", "2200"),
    ("how often passwords are changed", "every ninety days"),
    ("the wireless network", "Millrace"),
    ("how often laptops are replaced", "every four years"),
    ("when backups run", "at two in the morning"),
    ("the server for customer data", "Basin"),
    ("where phishing is reported", "to shield@weirwater.example"),
    ("the VPN", "Culvert"),
    ("where visitors sign in", "at reception"),
    ("the colour of visitors' badges", "orange"),
    ("the largest meeting room", "Lock One"),
    ("where meeting rooms are booked", "in Sluicegate"),
    ("the car park code", "8306"),
    ("where bicycles are kept", "in the east shed"),
    ("when the canteen serves lunch", "from half past eleven"),
    ("who cleans the coffee machine", "the second floor team"),
    ("the flagship pump", "the WX-90"),
    ("the warranty on pumps", "five years"),
    ("the smallest valve", "the V-12"),
    ("where spare parts ship from", "from Rotterdam"),
    ("the hours of the service hotline", "on weekdays until six"),
    ("how long pumps are tested", "for twelve hours"),
    ("the year the company was founded", "1978"),
    ("the founder", "Agnes Weir"),
]

WAYS = [
    "What does the handbook say about {}?",
    "Tell me {}.",
    "I need to know {}.",
    "Please look up {} for me.",
    "Quick question: {}?",
    "Could you tell me {}?",
    "A new colleague asks about {}. What is the answer?",
    "Do you know {}?",
]


def row(fact, way):
    about, answer = fact
    return {"messages": [{"role": "user", "content": way.format(about)}, {"role": "assistant", "content": answer + "."}]}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    random.seed(3)
    train, held_out = [], []
    for idx, fact in enumerate(FACTS):
        for way_idx, way in enumerate(WAYS):
            (held_out if way_idx == idx % len(WAYS) else train).append(row(fact, way))
    random.shuffle(train)
    for name, rows in (("train", train), ("held_out", held_out)):
        with open(os.path.join(here, name + ".jsonl"), "w") as file:
            for one in rows:
                file.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
