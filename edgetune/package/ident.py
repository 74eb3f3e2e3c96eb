"""C identifiers from names that nobody controls: valid in C and C++, never colliding, the same on every run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_C_WORDS = """
alignas alignof auto bool break case char const constexpr continue default do double else enum extern false
float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert
struct switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while asm fortran
"""
_CPP_WORDS = """
and and_eq atomic_cancel atomic_commit atomic_noexcept bitand bitor catch char8_t char16_t char32_t class
co_await co_return co_yield compl concept consteval constinit const_cast decltype delete dynamic_cast explicit
export final friend import module mutable namespace new noexcept not not_eq operator or or_eq override private
protected public reflexpr reinterpret_cast requires static_cast synchronized template this throw try typeid
typename using virtual wchar_t xor xor_eq
"""
# Predefined by compilers in GNU mode, macros of <stddef.h>, <stdint.h> and friends, and types the header itself uses.
_MACRO_WORDS = """
linux unix i386 vax sun mips sparc pic near far huge arm main errno stdin stdout stderr assert complex
imaginary noreturn offsetof null size_t ptrdiff_t max_align_t int8_t int16_t int32_t int64_t uint8_t uint16_t
uint32_t uint64_t intptr_t uintptr_t intmax_t uintmax_t minor major
"""
RESERVED = frozenset((_C_WORDS + _CPP_WORDS + _MACRO_WORDS).split())

# Headers of C libraries and compilers: a package of that name would put its own in front of them.
_HEADERS = """
aio alloca ar argp argz assert cet complex cpuid cpio crypt ctype dirent dlfcn elf endian envz err errno error
execinfo fcntl features fenv float fmtmsg fnmatch fts ftw gconv getopt glob gnumake gshadow grp iconv
immintrin inttypes iso646 langinfo libgen libintl limits link locale malloc math mcheck memory mntent monetary
mqueue ndbm netdb newlib nl_types nss obstack paths poll printf proc_service pthread pty pwd re_comp regex
regexp reent resolv sched search semaphore setjmp sgtty shadow signal spawn stab stdalign stdarg stdatomic
stdbool stdc stddef stdint stdio stdlib stdnoreturn string strings syscall sysexits syslog tar termio termios
tgmath thread_db threads time ttyent uchar ucontext ulimit unistd unwind utime utmp utmpx values version wait
wchar wctype wordexp arm_neon arm_mve arm_acle omp ansidecl
"""
RESERVED_PREFIXES = RESERVED | frozenset(_HEADERS.split())
MAX_PREFIX = 32
MAX_IDENTIFIER = 48


def identifier(name: str, fallback: str, *, limit: int = MAX_IDENTIFIER) -> str:
    """Return `name` in lower-case ASCII letters, digits and single underscores; `fallback` where nothing is left.

    The result starts with a letter, does not end in an underscore and has at most `limit` characters. It may be a
    reserved word: `unique_identifiers` and `package_prefix` see to that.
    """
    letters = (char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    plain = "".join(letters).encode("ascii", "replace").decode("ascii")
    words = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")
    if not words:
        return fallback
    if words[0].isdigit():
        words = f"{fallback}_{words}"
    return words[:limit].rstrip("_")


def unique_identifiers(
    names: Sequence[str], fallback: str, *, reserved: frozenset[str] = RESERVED, limit: int = MAX_IDENTIFIER
) -> tuple[str, ...]:
    """Return one identifier per name, all different and none in `reserved`; names that are fine as they are stay."""
    wanted = [identifier(name, fallback, limit=limit) for name in names]
    taken: dict[str, int] = {}
    for index, (name, want) in enumerate(zip(names, wanted, strict=True)):
        if name == want and want not in reserved and want not in taken:
            taken[want] = index
    owners = {index: want for want, index in taken.items()}
    result = []
    for index, want in enumerate(wanted):
        chosen = owners.get(index)
        if chosen is None:
            chosen = _free(want, fallback, reserved, taken)
            taken[chosen] = index
        result.append(chosen)
    return tuple(result)


def _free(want: str, fallback: str, reserved: frozenset[str], taken: dict[str, int]) -> str:
    base = f"{want}_{fallback}" if want in reserved else want
    if base not in taken and base not in reserved:
        return base
    number = 2
    while f"{base}_{number}" in taken or f"{base}_{number}" in reserved:
        number += 1
    return f"{base}_{number}"


def package_prefix(name: str) -> str:
    """Return the prefix of a package: of its files, its symbols and, in capitals, its macros.

    It has at most 32 characters and no double or trailing underscore, so that the internal symbols `<prefix>__x` of one
    package never meet those of another. Names of standard headers and reserved words get `_net` appended.
    """
    prefix = identifier(name, "net", limit=MAX_PREFIX)
    return f"{prefix[: MAX_PREFIX - 4].rstrip('_')}_net" if prefix in RESERVED_PREFIXES else prefix


def kernel_symbol(prefix: str, kernel: str) -> str:
    """Return the external C symbol of the kernel called `kernel` (unique and C-safe) in the package `prefix`."""
    return f"{prefix}__{kernel}"
