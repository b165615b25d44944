"""`python -m benchmarks [name ...] [options]`: run the named measurements one after another, or those of solvers."""

import argparse
import importlib
import inspect
import pkgutil
import sys

import benchmarks

BY_DEFAULT = ("peers", "scaling", "headlines", "certificates", "memory")


def main() -> int:
    found = [
        module.name.removeprefix("benchmarks.") for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    ]
    names = [name for name in found if name != "__main__" and not name.startswith("peers.")]
    loaded = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    measurements = {name: module for name, module in loaded.items() if hasattr(module, "run")}
    parser = argparse.ArgumentParser(prog="make bench", formatter_class=argparse.RawDescriptionHelpFormatter)
    described = {name: (module.__doc__ or "").splitlines()[0] for name, module in measurements.items()}
    parser.epilog = "\n".join(f"{name:28} {what}" for name, what in described.items())
    parser.add_argument("names", nargs="*", help=f"measurements; without any: {', '.join(BY_DEFAULT)}")
    _add_options(parser)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in measurements]:
        print(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(measurements)}", file=sys.stderr)
        return 2
    for name in options.names or BY_DEFAULT:
        print(f"== {name}: {described[name]}", flush=True)
        run = measurements[name].run
        run(*[options] * len(inspect.signature(run).parameters))
    return 0


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Of the measurements that take any."""
    parser.add_argument("--quick", action="store_true", help="few sets only, under five minutes")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu on a machine that is not quiet")
    parser.add_argument(
        "--parts", help="dashboard: only these of lists, screens, curves, live; tuning: of proof, speed, short"
    )
    parser.add_argument("--against", help="commits: the folder of the other checkout")
    peers = parser.add_argument_group("peers")
    peers.add_argument("--fresh", action="store_true", help="measure again what is already on disk")
    peers.add_argument("--fresh-ours", action="store_true", help="measure ours again, keep the peers' runs")
    peers.add_argument("--minutes", type=float, help="begin no match after these; the page shows what there is")
    peers.add_argument("--sets", help="only these, separated by commas")
    peers.add_argument("--threads", type=int, default=1, help="2: ours with two threads beside the parallel peers")
    peers.add_argument("--methods", action="store_true", help="also each of our methods alone")


if __name__ == "__main__":
    sys.exit(main())
