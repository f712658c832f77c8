#!/usr/bin/env python3
"""Security estimates for the parameter presets, with the lattice estimator.

    git clone the repository malb/lattice-estimator into some folder ESTIMATOR
    python3.12 -m venv venv
    venv/bin/pip install passagemath-standard-no-symbolics==10.8.* passagemath-symbolics==10.8.*
    restante params --lattices --json > lattices
    venv/bin/python scripts/estimate.py ESTIMATOR lattices > scripts/estimates.txt

The rows of presets and limits come from the program itself: `restante params --lattices` prints their primes,
distributions and samples, and the id that crates/restante/tests/estimates.rs looks for in the table. Whoever changes a
preset has to make its row again. The other rows are choices that were considered.

The estimator is LGPL software: it is run, never copied into this repository. `--only TEXT` runs the instances whose
name contains TEXT, `--limit SECONDS` bounds each single attack (a cell that ran out reads "t/o"). A full run takes
about an hour on an idle core; progress goes to standard error, the table to standard output. The rows do not depend on
each other: scripts/estimates.txt joins the rows of several runs with `--only`, all with the versions that it names.
"""

import argparse
import datetime
import importlib.metadata
import json
import math
import multiprocessing
import platform
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("estimator", help="folder of a checkout of malb/lattice-estimator")
parser.add_argument("lattices", help="what `restante params --lattices --json` prints; - for none")
parser.add_argument("--only", default="", help="run only the instances whose name contains this text")
parser.add_argument("--limit", type=int, default=300, help="seconds allowed to one attack (default %(default)s)")
arguments = parser.parse_args()
sys.path.insert(0, arguments.estimator)

from estimator import LWE, ND, RC  # noqa: E402
from estimator import lwe_dual  # noqa: E402
from sage.all import oo  # noqa: E402


def discrete_gaussian(sigma):
    """Standard deviation and P(nonzero) of the distribution on Z with weights exp(-x^2 / (2 sigma^2)).

    Below sigma = 1 the standard deviation is visibly less than the parameter sigma.
    """
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-40, 41)}
    total = sum(weights.values())
    variance = sum(x * x * w for x, w in weights.items()) / total
    return math.sqrt(variance), 1 - weights[0] / total


def clue(name, n, error, m=None, secret=ND.Uniform(-1, 1), attacks="fast"):
    """A clue or clue key: modulus 3 * 2^18 + 1; one ring element of samples unless `m` says otherwise."""
    return NONE, name, LWE.Parameters(n, 786433, secret, error, m=m or n), attacks


def bfv(name, n, modulus, secret=None, attacks="fast"):
    """A BFV key: any number of samples (key-switching keys and ciphertexts share the secret), sigma 3.2."""
    return NONE, name, LWE.Parameters(n, modulus, secret or ND.Uniform(-1, 1), ND.DiscreteGaussian(3.2), m=oo), attacks


def lattice(line):
    """A line of `restante params --lattices --json`: a preset, or a limit, whose modulus is a power of two."""
    row = json.loads(line)
    if row["secret"] != "ternary":
        raise SystemExit(f"{row['name']}: no estimate for secrets that are {row['secret']}")
    modulus = math.prod(row["moduli"]) if row["moduli"] else 2 ** row["limit_bits"]
    error = ND.DiscreteGaussian(discrete_gaussian(row["error_sigma"])[0])
    parameters = LWE.Parameters(row["degree"], modulus, ND.Uniform(-1, 1), error, m=row["samples"] or oo)
    return row["lattice_id"], f"{row['name']}: {row['degree']}/{math.log2(modulus):.2f}", parameters, "preset"


half_deviation, half_density = discrete_gaussian(0.5)
half_weight = round(1024 * half_density / 2)
half_as_ternary = ND.SparseTernary(half_weight, half_weight, 1024)

# The id of a row that is none of the program's.
NONE = "-"

# With at least n samples secret and error can exchange roles (multiply by the inverse of `a`), so the attacker guesses
# coordinates of whichever is easier: the rows "roles exchanged" guess the error.
INSTANCES = [
    clue("clue n=1024 sigma=0.5, m=1024", 1024, ND.DiscreteGaussian(0.5), attacks="all"),
    clue("clue n=1024 sigma=0.5, m=2048", 1024, ND.DiscreteGaussian(0.5), m=2048, attacks="all"),
    clue(f"clue n=1024 deviation={half_deviation:.3f}, m=1024", 1024, ND.DiscreteGaussian(half_deviation), attacks="all"),
    clue(f"clue n=1024 deviation={half_deviation:.3f}, m=2048", 1024, ND.DiscreteGaussian(half_deviation), m=2048, attacks="all"),
    clue(
        f"clue n=1024 roles exchanged, weight {2 * half_weight}",
        1024,
        ND.Uniform(-1, 1),
        secret=half_as_ternary,
        attacks="all",
    ),
    clue("clue n=1024 ternary error, m=1024", 1024, ND.Uniform(-1, 1)),
    clue("clue n=896 sigma=1, m=896", 896, ND.DiscreteGaussian(1)),
    clue("clue n=832 sigma=1, m=832", 832, ND.DiscreteGaussian(1)),
    clue("clue n=832 sigma=2, m=832", 832, ND.DiscreteGaussian(2)),
    bfv("BFV N=4096 logQP=98.00", 4096, 2**98),
    bfv("BFV N=4096 logQP=109", 4096, 2**109),
    bfv("BFV N=4096 logQP=98, variance 1/3", 4096, 2**98, secret=ND.SparseTernary(683, 683, 4096)),
    bfv("BFV N=8192 logQP=200", 8192, 2**200, attacks="large"),
    bfv("BFV N=8192 logQP=218", 8192, 2**218, attacks="large"),
    bfv("BFV N=16384 logQP=438", 16384, 2**438, attacks="large"),
    bfv("BFV N=65536 logQP=1650", 65536, 2**1650, attacks="quick"),
    bfv("BFV N=65536 logQP=1747", 65536, 2**1747, attacks="quick"),
]

if arguments.lattices != "-":
    with open(arguments.lattices, encoding="utf-8") as lines:
        # Presets that come down to the same instance have one row.
        INSTANCES = list({row[0]: row for row in map(lattice, lines)}.values()) + INSTANCES

MODELS = [("MATZOV", RC.MATZOV), ("Core-SVP", RC.ADPS16)]

ATTACKS = {
    "usvp": lambda p, model: LWE.primal_usvp(p, red_cost_model=model),
    "bdd": lambda p, model: LWE.primal_bdd(p, red_cost_model=model),
    "bdd-hyb": lambda p, model: LWE.primal_hybrid(p, mitm=False, babai=False, red_cost_model=model),
    "bdd-mitm": lambda p, model: LWE.primal_hybrid(p, mitm=True, babai=True, red_cost_model=model),
    "dual": lambda p, model: LWE.dual(p, red_cost_model=model),
    "dual-hyb": lambda p, model: LWE.dual_hybrid(p, red_cost_model=model),
    "dual-mitm": lambda p, model: lwe_dual.dual_hybrid(p, mitm_optimization=True, red_cost_model=model),
}
# Which attacks run on an instance. Guessing a dense secret does not pay (bdd-hyb returns zeta = 0, the figure of bdd) and its
# search is long, so "fast" leaves it out; "large" also leaves out the long search of dual-hyb in the second model. In large
# dimension bdd and dual-hyb come out within a bit of usvp and dual, the only ones that "quick" runs. "preset" runs all that
# do not guess, in the model that the program's claims are about.
GUESSING = {"bdd-hyb", "bdd-mitm", "dual-mitm"}
QUICK = {"usvp", "dual"}


def skipped(attacks, attack, model_name):
    if attacks == "preset":
        return attack in GUESSING or model_name != "MATZOV"
    if attacks == "quick":
        return attack not in QUICK
    if attack in GUESSING:
        return attacks != "all" or model_name != "MATZOV"
    return attacks == "large" and attack == "dual-hyb" and model_name != "MATZOV"


def run(attack, parameters, model, answers):
    try:
        answers.put(float(math.log2(ATTACKS[attack](parameters, model)["rop"])))
    except Exception as error:
        print(f"  {attack}: {type(error).__name__}: {error}", file=sys.stderr)
        answers.put(None)


def bounded(attack, parameters, model):
    """Bits of one attack, "n/a" where the estimator does not support it, "t/o" where it ran out of time."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=run, args=(attack, parameters, model, answers))
    child.start()
    child.join(arguments.limit)
    if child.is_alive():
        child.kill()
        child.join()
        return "t/o"
    bits = None if answers.empty() else answers.get()
    return "n/a" if bits is None else bits


def shown(bits):
    return f"{bits:.1f}" if isinstance(bits, float) else bits


def main():
    commit = subprocess.run(
        ["git", "-C", arguments.estimator, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print("Security estimates in bits (log2 of the attack's operations), by scripts/estimate.py")
    print(f"date       {datetime.date.today().isoformat()}")
    print(f"estimator  malb/lattice-estimator {commit or 'of unknown commit'}")
    for package in ("passagemath-standard-no-symbolics", "passagemath-symbolics"):
        print(f"package    {package} {importlib.metadata.version(package)}")
    print(f"python     {platform.python_version()}")
    print()
    print("Rows with an id: presets and limits as `restante params --lattices` prints them, NAME: DEGREE/log2 of the exact modulus.")
    print("A limit's modulus is a power of two. inf: no attack in the range of the estimator's search. Their claim is the least of usvp, bdd, dual and dual-hyb under MATZOV.")
    print("Clues: q = 786433, dense uniform ternary secret, m samples. BFV: uniform ternary secret unless said, sigma 3.2,")
    print("any number of samples. 'sigma' is the standard deviation given to the estimator; a discrete Gaussian with")
    print(f"parameter 0.5 has the standard deviation {half_deviation:.3f} and is nonzero with probability {half_density:.3f},")
    print("hence the rows 'deviation' and 'roles exchanged' (the error's weight guessed as a sparse ternary secret).")
    print("MATZOV: gate counts, the estimator's default. Core-SVP: 2^(0.292 beta), for comparison with the literature.")
    print("usvp, bdd: primal. bdd-hyb, bdd-mitm: primal with guessing, and with a meet in the middle. dual-hyb: with FFT")
    print(f"guessing (MATZOV's). dual-mitm: with a meet in the middle. t/o: over {arguments.limit} s. n/a: not supported by the")
    print("estimator for this secret or error. -: not run (guessing does not pay for dense secrets; see the script).")
    print()
    header = f"{'id':<18}{'instance':<46}{'model':<10}" + "".join(f"{attack:>10}" for attack in ATTACKS) + f"{'least':>8}"
    print(header)
    print("-" * len(header), flush=True)
    for lattice_id, name, parameters, attacks in INSTANCES:
        if arguments.only not in name:
            continue
        for model_name, model in MODELS:
            if all(skipped(attacks, attack, model_name) for attack in ATTACKS):
                continue
            bits = {}
            for attack in ATTACKS:
                if skipped(attacks, attack, model_name):
                    bits[attack] = "-"
                    continue
                started = time.monotonic()
                bits[attack] = bounded(attack, parameters, model)
                seconds = time.monotonic() - started
                print(f"{name}: {model_name} {attack} {shown(bits[attack])} ({seconds:.0f} s)", file=sys.stderr)
            numbers = [value for value in bits.values() if isinstance(value, float)]
            cells = "".join(f"{shown(bits[attack]):>10}" for attack in ATTACKS)
            print(f"{lattice_id:<18}{name:<46}{model_name:<10}{cells}{shown(min(numbers)) if numbers else '?':>8}", flush=True)


main()
