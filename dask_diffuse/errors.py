"""Exceptions and warnings, each with an id that users can search for and silence."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "DiffuseError",
    "DiffuseWarning",
    "FallbackWarning",
    "MissingPackageError",
    "OptionError",
    "UnknownOptionError",
    "UnsupportedError",
    "VerifyError",
    "VersionError",
]


class DiffuseError(Exception):
    """Base class of everything dask_diffuse raises outside the hook."""


class OptionError(DiffuseError, ValueError):
    """An option has a name or a value that is not allowed.

    Parameters
    ----------
    name
        The option as the user wrote it.
    value
        The value that was refused.
    allowed
        What would have been accepted, in words.
    remedy
        What to do about it, as a sentence, if that does not go without saying.
    """

    def __init__(
        self, name: str, value: object, allowed: str, remedy: str = ""
    ) -> None:
        super().__init__(name, value, allowed, remedy)
        self.name = name
        self.value = value
        self.allowed = allowed
        self.remedy = remedy

    def __str__(self) -> str:
        text = (
            f"option {self.name!r} has the value {self.value!r}; "
            f"it must be {self.allowed}"
        )
        return f"{text}. {self.remedy}" if self.remedy else text


class UnknownOptionError(OptionError):
    """There is no option of this name.

    Parameters
    ----------
    name
        As the user wrote it.
    value
        What it was to be set to.
    allowed
        The names that there are, in words.
    remedy
        What may have been meant, as a sentence.
    """

    def __str__(self) -> str:
        text = f"there is no option {self.name!r}; there are {self.allowed}"
        return f"{text}. {self.remedy}" if self.remedy else text


class MissingPackageError(DiffuseError, ImportError):
    """An optional package is needed for what was asked.

    Parameters
    ----------
    package
        The name to install.
    purpose
        What needs it, in words.
    extra
        The extra of dask-diffuse that brings it, if there is one.
    remedy
        How to install what no package index has.
    """

    def __init__(
        self,
        package: str,
        purpose: str,
        extra: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(package, purpose, extra, remedy)
        self.package = package
        self.purpose = purpose
        self.extra = extra
        self.remedy = remedy

    def __str__(self) -> str:
        install = f"dask-diffuse[{self.extra}]" if self.extra else self.package
        remedy = self.remedy or f"Install it with: pip install '{install}'"
        return (
            f"{self.purpose} needs {self.package!r}, which is not installed. {remedy}"
        )


class VersionError(DiffuseError, ImportError):
    """A package is installed in a version that does not work.

    Parameters
    ----------
    package
        Its name.
    version
        The version that is installed.
    supported
        What would work, as ``pip`` writes it.
    """

    def __init__(self, package: str, version: str, supported: str) -> None:
        super().__init__(package, version, supported)
        self.package = package
        self.version = version
        self.supported = supported

    def __str__(self) -> str:
        return (
            f"{self.package} {self.version} is installed, and this version of "
            f"dask-diffuse works with {self.package}{self.supported}. Install one of "
            f"these with: pip install '{self.package}{self.supported}', or look for a "
            "newer dask-diffuse"
        )


class VerifyError(DiffuseError):
    """A program or a kernel breaks a rule of its IR. This is a bug of dask_diffuse.

    Parameters
    ----------
    what
        The rule that is broken, with the values.
    where
        The printed IR around the offending line.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what}\n{self.where}" if self.where else self.what


class UnsupportedError(DiffuseError):
    """The frontend met something it cannot express; becomes an opaque task.

    Users never see it raised: its text is the reason in ``explain()``.

    Parameters
    ----------
    message
        What cannot be expressed, as a short sentence without a full stop.
    rule
        The id of the rule that refused it.
    remedy
        What to do about it, as a sentence without a full stop.
    """

    def __init__(
        self, message: str, rule: str = "unsupported-argument", remedy: str = ""
    ) -> None:
        super().__init__(message, rule, remedy)
        self.message = message
        self.rule = rule
        self.remedy = remedy

    def __str__(self) -> str:
        return self.message


class CompileError(DiffuseError):
    """A kernel did not compile for a target.

    Parameters
    ----------
    target
        ``"cpu"`` or ``"cuda"``.
    label
        The label of the kernel, made from the layers it came from.
    message
        What the compiler said.
    source
        The text that was handed to the compiler.
    """

    def __init__(self, target: str, label: str, message: str, source: str = "") -> None:
        super().__init__(target, label, message, source)
        self.target = target
        self.label = label
        self.message = message
        self.source = source

    def __str__(self) -> str:
        text = (
            f"kernel {self.label!r} does not compile for {self.target}: {self.message}"
        )
        if not self.source:
            return text
        lines = self.source.splitlines()
        numbered = (f"{number:4d} | {line}" for number, line in enumerate(lines, 1))
        return text + "\n" + "\n".join(numbered)


class DiffuseWarning(UserWarning):
    """Base class of the warnings of dask_diffuse."""


class FallbackWarning(DiffuseWarning):
    """Something was not fused although it was planned; the result is right anyway."""
