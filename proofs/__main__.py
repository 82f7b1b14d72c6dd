"""Prove what Layby promises, or find where it does not hold.

    python -m proofs [NAME…] [--size quick|full] [--only proofs|mutations] [--mutation NAME] [--jobs N] [--json FILE]

Runs every proof, or those that are named; then each of them again on builds with a fault in them, which it must catch:
all of its faults, or in a quick run of everything one of them, another each time.
Prints one table, and exits 1 on any breach, on a fault that was not caught, and on a proof that could not be run;
130 if it is interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from proofs import child, running, table
from proofs.catalogue import NAMES, load
from proofs.proof import Proof

FEW = 1
"""How many of its faults a proof is tried on in a quick run of all: there are five minutes for it."""


def main() -> int:
    chosen = _options()
    if chosen.child:
        return child.main(chosen.child, chosen.size, chosen.seed, chosen.mutation, Path(chosen.result))
    if chosen.list:
        for name in NAMES:
            print(f"{name:12} {load(name).promise}")
        return 0
    proofs = [load(name) for name in chosen.names or NAMES]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, running.stop)
    began = time.monotonic()
    results = running.run_all(_jobs(proofs, chosen), at_once=chosen.jobs)
    print(table.render(results, time.monotonic() - began, chosen.size))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps([result.as_json() for result in results], indent=1) + "\n")
    if any(result.outcome == running.INTERRUPTED for result in results):
        return 128 + signal.SIGINT
    return 0 if results and all(result.good for result in results) else 1


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m proofs", description=(__doc__ or "").splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    options.add_argument("--size", choices=("quick", "full"), default="quick")
    options.add_argument("--only", choices=("proofs", "mutations"), help="leave out the others")
    options.add_argument(
        "--mutation", default="", metavar="NAME", help="this one alone, of the one proof that is named"
    )
    at_once = min(2, os.cpu_count() or 1)
    options.add_argument(
        "--jobs",
        type=int,
        choices=range(1, 9),
        metavar="N",
        default=at_once,
        help="how many at once (default %(default)s)",
    )
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="of what is chosen at random")
    options.add_argument("--json", metavar="FILE", help="write the results there too")
    options.add_argument("--list", action="store_true", help="name the proofs, and what they prove")
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--result", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.names) - set(NAMES)):
        options.error(f"there is no proof {unknown[0]}; there are {', '.join(NAMES)}")
    if chosen.mutation and not chosen.child:  # nothing to run must not look as if all had held
        known = [mutation.name for name in chosen.names for mutation in load(name).mutations]
        if len(chosen.names) != 1:
            options.error("--mutation needs the one proof that it belongs to: python -m proofs NAME --mutation …")
        if chosen.mutation not in known:
            options.error(f"{chosen.names[0]} has no fault {chosen.mutation}; it has {', '.join(known) or 'none'}")
    return chosen


def _jobs(proofs: list[Proof], chosen: argparse.Namespace) -> list[running.Job]:
    jobs, chance = list[running.Job](), random.Random(chosen.seed)
    few = chosen.size == "quick" and not (chosen.names or chosen.only)
    for proof in proofs:
        if chosen.only != "mutations" and not chosen.mutation:
            jobs.append(running.Job(proof, chosen.size, chosen.seed))
        if chosen.only != "proofs":
            wanted = [one for one in proof.mutations if chosen.mutation in ("", one.name)]
            wanted = chance.sample(wanted, FEW) if few and len(wanted) > FEW else wanted
            jobs += [running.Job(proof, chosen.size, chosen.seed, mutation) for mutation in wanted]
    return jobs


if __name__ == "__main__":
    sys.exit(main())
