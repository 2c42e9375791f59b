"""torch's, Python's and numpy's generators: emulated, keyed, saved and restored.

`drawing` and `keyed_generators` provide the generators of a draw. `stream_of` gives the stream that a transform draws
from: an `MT19937Stream`, which computes torch's numbers without calling torch, or a `TorchStream`, which calls torch.
`fastpipe.rng.state` saves and restores the generators.
"""

from fastpipe.rng.generators import Stream, StreamGenerators, drawing, keyed_generators, numpy_of, stream_of
from fastpipe.rng.keys import sample_key, sample_keys
from fastpipe.rng.mt19937 import MT19937Stream
from fastpipe.rng.state import (
    GeneratorStates,
    Streams,
    as_globals,
    copied_generators,
    keyed_globals,
    plain,
    preserved_globals,
    rewound,
    rewound_on,
    seed_python,
)
from fastpipe.rng.torch_stream import TorchStream

__all__ = [
    "GeneratorStates",
    "MT19937Stream",
    "Stream",
    "StreamGenerators",
    "Streams",
    "TorchStream",
    "as_globals",
    "copied_generators",
    "drawing",
    "keyed_generators",
    "keyed_globals",
    "numpy_of",
    "plain",
    "preserved_globals",
    "rewound",
    "rewound_on",
    "sample_key",
    "sample_keys",
    "seed_python",
    "stream_of",
]
