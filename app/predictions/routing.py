"""Which of an alias's versions answers a request: by a routing key always the same one, without a key by chance."""

import hashlib
import math
import random
from collections.abc import Sequence


def choose(alias: str, targets: Sequence[tuple[str, float]], key: str | None) -> str:
    """One of the targets' ids, each as often as its weight says.

    With a key, by weighted rendezvous hashing: a change of weights moves only as many keys as it must, and a key that
    stays with a version stays however the others share the rest.
    """
    if len(targets) == 1:
        return targets[0][0]
    if key is None:
        return random.choices([one for one, _ in targets], [weight for _, weight in targets])[0]
    return max(targets, key=lambda target: -target[1] / math.log(_fraction(alias, target[0], key)))[0]


def _fraction(alias: str, target: str, key: str) -> float:
    """Between 0 and 1, neither of them; evenly spread over keys and unlike from target to target."""
    text = f"{alias}\n{target}\n{key}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest) >> 12) + 0.5) / 2.0**52
