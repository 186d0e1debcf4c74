"""Values without any other form as pickles: only where a store was opened with `trust=True`.

To read a pickle runs whatever its author wanted to be run.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from pydantic import Secret, SecretBytes, SecretStr


def dump(value: Any) -> bytes:
    """A value, also a function or an instance of a class of a cell, which travels along.

    Raises:
        TypeError: There is a secret in it.
        Exception: It cannot be pickled: whatever is in it raises.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, (Secret, SecretBytes, SecretStr)):
                raise TypeError("there is a secret in it, which would be readable in the file")
            return super().reducer_override(part)

    file = io.BytesIO()
    Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def load(data: bytes) -> Any:
    """What `dump` wrote. Runs what is in it."""
    return pickle.loads(data)
