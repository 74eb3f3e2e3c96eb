"""Name sanitising: turns arbitrary names of a model into valid C identifiers.

The identifiers are unique in one function and do not collide with a keyword, macro, library function or type of ours.
Nor do they with other names of a package, which contain two underscores in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgetune.codegen.text import Code

_RESERVED_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
asm typeof linux unix i386 arm main bool true false scratch errno assert offsetof stdin stdout stderr
signgam index rindex gamma lgamma tgamma exp exp2 exp10 expm1 log log2 log10 log1p pow pow10 sqrt cbrt hypot
sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc ceil floor round trunc rint
nearbyint fabs abs labs fmod fmin fmax fma fdim ldexp frexp modf scalb significand drem logb ilogb remainder
nan read write link time signal select free malloc calloc realloc exit abort memcpy memset memmove memcmp y0
y1 yn j0 j1 jn div ldiv dup pipe near far
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_ADDED = re.compile(r"[._](local|global|shared|intermediate|red_temp|n[dhw]*c|nc[dhw]*|NN|NT|TN|TT)(?=[._]|$)")
_LANES = re.compile(r"[._]rf(?=[._]|$)")
_HEAD = re.compile(r"^(T_|node\d+_+)")
_WORDS = {"maxelem": "max", "expsum": "exp_sum"}
_SHORT_TYPE = re.compile(r"(bf|f|i|u)\d+(x\d+)?u?$")


def identifier(text: str) -> str:
    """A lower-case C identifier made of `text`, at most 40 characters; not yet unique."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40].strip("_") or "v"
    if not name[0].isalpha():
        name = "v" + name
    if name in _RESERVED or _SHORT_TYPE.match(name) or name.endswith("_t"):
        name += "_v"
    return name


def plain_name(text: str) -> str:
    """The name of a buffer without TVM's additions: where it lies, how it was made, its layout.

    The lanes of a sum that are joined later are called so.
    """
    name = _HEAD.sub("", _LANES.sub("_lanes", _ADDED.sub("", text)))
    for word, plain in _WORDS.items():
        name = name.replace(word, plain)
    return name or text


class Names:
    """Creates identifiers, each only once. Each function has its own instance."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}
        self._ended: set[str] = set()

    def loop(self, text: str) -> Code:
        """`identifier(text)` for a loop: no other name is equal but those of loops that have ended (see `release`)."""
        base = identifier(text)
        name, number = base, 0
        while name in self._taken and name not in self._ended:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        self._ended.discard(name)
        return Code(name, (name,))

    def release(self, name: str) -> None:
        """Allow the next loop to have the name of one that has ended."""
        self._ended.add(name)

    def unique(self, text: str) -> Code:
        """`identifier(text)`, followed by a number if that is taken."""
        base = identifier(text)
        name = base
        while name in self._taken:
            self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}_{self._next[base]}"
        self._taken.add(name)
        return Code(name, (name,))
