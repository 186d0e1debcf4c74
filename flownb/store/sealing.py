"""Secrets that a journal may hold: encrypted with a key that is in the environment, not in the store.

Fernet, of `cryptography`: AES and an HMAC under one key, with no choice for us to get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flownb.errors import WorkflowConfigurationError

KEY = "FLOWNB_KEY"
_HOW = 'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'


class Sealer:
    """Seals and opens with one key.

    Args:
        key: 32 random bytes in URL-safe base64, as `Fernet.generate_key()` gives them.

    Raises:
        WorkflowConfigurationError: It is no such key, or `cryptography` is not installed.
    """

    def __init__(self, key: str) -> None:
        try:
            from cryptography.fernet import Fernet, InvalidToken
        except ImportError as error:
            raise WorkflowConfigurationError(
                f"{KEY} is set, and sealing secrets with it needs cryptography: pip install 'flownb[secrets]'."
            ) from error
        try:
            self._fernet: Any = Fernet(key)
        except ValueError:  # its text must not be told: it is nearly a key
            raise WorkflowConfigurationError(f"{KEY} is no key. One is made by: {_HOW}") from None
        self._other_key = InvalidToken

    def seal(self, plain: bytes) -> str:
        token: bytes = self._fernet.encrypt(plain)
        return token.decode("ascii")

    def open(self, token: str) -> bytes | None:
        """None: it was sealed with another key, or was changed."""
        try:
            plain: bytes = self._fernet.decrypt(token.encode("utf-8", "replace"))
        except self._other_key:
            return None
        return plain


def sealer_of(environment: Mapping[str, str]) -> Sealer | None:
    """The sealer of this process (`sealer_of(os.environ)`); None where no key is set: secrets then stay in memory.

    Raises:
        WorkflowConfigurationError: A key is set that cannot be used.
    """
    key = environment.get(KEY, "").strip()
    return Sealer(key) if key else None
