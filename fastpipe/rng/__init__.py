"""torch's and Python's generators: emulated, keyed, saved and restored.

`MT19937Stream` draws torch's numbers without torch's calls, `drawing` and `keyed_generators` say which generators a
draw comes from, `fastpipe.rng.draws` draws from any of them, and `fastpipe.rng.state` saves and restores them.
"""

from fastpipe.rng.generators import StreamGenerators, drawing, keyed_generators
from fastpipe.rng.keys import sample_key, sample_keys
from fastpipe.rng.mt19937 import MT19937Stream
from fastpipe.rng.state import (
    GeneratorStates,
    Streams,
    copied_generators,
    keyed_globals,
    preserved_globals,
    rewound_on,
)

__all__ = [
    "GeneratorStates",
    "MT19937Stream",
    "StreamGenerators",
    "Streams",
    "copied_generators",
    "drawing",
    "keyed_generators",
    "keyed_globals",
    "preserved_globals",
    "rewound_on",
    "sample_key",
    "sample_keys",
]
