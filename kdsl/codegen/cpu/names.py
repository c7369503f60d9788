"""C++ names: one allocator, which knows the keywords and what the headers define."""

from __future__ import annotations

import re
from pathlib import Path

_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq main linux unix NULL""".split()
)

#: Names that generated functions use themselves.
_OWN = frozenset("args a begin end task arena bytes real flush alone W".split())


def header_names(folder: Path) -> frozenset[str]:
    """Identifiers that the headers of a folder define: what generated code must not hide."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.h")))
    # What has a namespace of its own is out of the way.
    text = re.sub(
        r"^namespace (?!kdsl )(\w+) {.*?^}  // namespace \1$", "", text, flags=re.M | re.S
    )
    patterns = (
        r"^(?:static inline|inline|constexpr|KDSL_DEV|KDSL_FN)\b[^=;{(]*?\b(\w+)\(",
        r"^#define (\w+)",
        r"^constexpr [\w ]+ (\w+) =",
        r"^(?:struct|using) (\w+)",
        r"^typedef [^;]*?(\w+);",
        r"^KDSL_[A-Z0-9_]+\((\w+)[,)]",
    )
    return frozenset(n for p in patterns for n in re.findall(p, text, re.MULTILINE))


class Names:
    """Unique names of one generated function. `of` gives a thing the same name each time."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._taken = set(_KEYWORDS | _OWN | reserved)
        self._of: dict[tuple[str, str], str] = {}
        self._local: set[str] = set()

    def fresh(self, hint: str, *, local: bool = False) -> str:
        """A name nobody has yet, as near to `hint` as can be: without the number that made it
        unique in the IR. A local one is free again after `end_step`."""
        hint = re.sub(r"_\d+$", "", hint)
        name, i = hint, 1
        while name in self._taken:
            i += 1
            name = f"{hint}_" if i == 2 else f"{hint}_{i}"
        self._taken.add(name)
        if local:
            self._local.add(name)
        return name

    def end_step(self) -> None:
        self._taken -= self._local
        self._local.clear()

    def of(self, kind: str, thing: str, hint: str | None = None) -> str:
        key = (kind, thing)
        if key not in self._of:
            self._of[key] = self.fresh(hint or thing)
        return self._of[key]
