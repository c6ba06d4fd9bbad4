"""Attributes of a fitted model that are computed on first use."""

from __future__ import annotations

from typing import Any


class ComputesLater:
    """Mixin of estimators whose fit leaves some attributes to be computed when they are first needed.

    They are also computed when the estimator is copied, pickled or saved, so that what they are computed from
    is not stored. Two threads that need one at the same time both compute it, with the same result.
    """

    #: The method that computes each attribute. Read from the class: an object may come from a file.
    _computed_later: dict[str, str] = {}

    def _set_later(self, name: str, *arguments: Any) -> None:
        """``self.<name>`` will be what its method returns for the arguments."""
        self.__dict__.pop(name, None)
        self.__dict__.setdefault("_waiting", {})[name] = arguments

    def __getattr__(self, name: str) -> Any:  # called only for attributes that are not there
        method = type(self)._computed_later.get(name)
        arguments = self.__dict__.get("_waiting", {}).get(name)
        if method is not None and arguments is not None:
            self.__dict__[name] = getattr(self, method)(*arguments)
            self._waiting.pop(name, None)
        if name in self.__dict__:  # another thread may have been faster
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> Any:
        for name in type(self)._computed_later:
            getattr(self, name, None)
        return {name: value for name, value in super().__getstate__().items() if name != "_waiting"}  # type: ignore
