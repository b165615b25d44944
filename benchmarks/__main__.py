"""`python -m benchmarks [name ...] [options]`: run the named measurements one after another, or those of solvers."""

import argparse
import importlib
import pkgutil
import sys

import benchmarks

BY_DEFAULT = ("peers", "scaling", "headlines", "certificates", "memory")


def main() -> int:
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    loaded = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    measurements = {name: module for name, module in loaded.items() if hasattr(module, "run")}
    parser = argparse.ArgumentParser(prog="make bench", formatter_class=argparse.RawDescriptionHelpFormatter)
    described = {name: (module.__doc__ or "").splitlines()[0] for name, module in measurements.items()}
    parser.epilog = "\n".join(f"{name:16} {what}" for name, what in described.items())
    parser.add_argument("names", nargs="*", help=f"measurements; without any: {', '.join(BY_DEFAULT)}")
    takes_options = {name: module for name, module in measurements.items() if hasattr(module, "add_options")}
    for module in takes_options.values():
        module.add_options(parser)
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in measurements]:
        print(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(measurements)}", file=sys.stderr)
        return 2
    for name in options.names or BY_DEFAULT:
        print(f"== {name}: {described[name]}", flush=True)
        if name in takes_options:
            measurements[name].run(options)
        else:
            measurements[name].run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
