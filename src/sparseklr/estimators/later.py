"""Attributes of a fitted model that are computed on first use."""

from __future__ import annotations

from typing import Any


class ComputesLater:
    """Mixin of estimators whose fit leaves some attributes to be computed when they are first needed.

    They are also computed when the estimator is copied, pickled or saved, so that what they are computed from
    is not stored. Two threads that need one at the same time both compute it, with the same result.
    """

    def _set_later(self, name: str, method: str, *arguments: Any) -> None:
        """``self.<name>`` will be what ``self.<method>(*arguments)`` returns."""
        self.__dict__.pop(name, None)
        self.__dict__.setdefault("_waiting", {})[name] = method, arguments

    def __getattr__(self, name: str) -> Any:  # called only for attributes that are not there
        waiting = self.__dict__.get("_waiting", {})
        if name in waiting:
            method, arguments = waiting[name]
            self.__dict__[name] = getattr(self, method)(*arguments)
            waiting.pop(name, None)
        if name in self.__dict__:  # another thread may have been faster
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> Any:
        for name in [*self.__dict__.get("_waiting", ())]:
            getattr(self, name)
        return {name: value for name, value in super().__getstate__().items() if name != "_waiting"}  # type: ignore
