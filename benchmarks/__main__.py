"""`python -m benchmarks [name ...]`: run the named measurements, or all of them, one after another."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> int:
    measurements = {}
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name != "__main__":
            loaded = importlib.import_module(f"benchmarks.{module.name}")
            if hasattr(loaded, "run"):
                measurements[module.name] = loaded
    chosen = sys.argv[1:] or list(measurements)
    if unknown := [name for name in chosen if name not in measurements]:
        print(f"no such measurement: {', '.join(unknown)}; there are: {', '.join(measurements)}", file=sys.stderr)
        return 2
    for name in chosen:
        print(f"== {name}: {(measurements[name].__doc__ or '').splitlines()[0]}", flush=True)
        measurements[name].run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
