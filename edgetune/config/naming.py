"""Converts names from outside into C identifiers and package names, and lists the reserved names."""

from __future__ import annotations

import re
import unicodedata

from edgetune.errors import UsageError

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
# Macros that compilers predefine in GNU mode, macros of <stddef.h>, <stdint.h> etc., and types that the header uses.
_MACRO_WORDS = """
linux unix i386 vax sun mips sparc pic near far huge arm main errno stdin stdout stderr assert complex
imaginary noreturn offsetof null size_t ptrdiff_t max_align_t int8_t int16_t int32_t int64_t uint8_t uint16_t
uint32_t uint64_t intptr_t uintptr_t intmax_t uintmax_t minor major
"""
RESERVED = frozenset((_C_WORDS + _CPP_WORDS + _MACRO_WORDS).split())

# Headers of C libraries and compilers: the header of a package with that name would hide them.
_HEADERS = """
aio alloca ar argp argz assert cet complex cpuid cpio crypt ctype dirent dlfcn elf endian envz err errno error
execinfo fcntl features fenv float fmtmsg fnmatch fts ftw gconv getopt glob gnumake gshadow grp iconv
immintrin inttypes iso646 langinfo libgen libintl limits link locale malloc math mcheck memory mntent monetary
mqueue ndbm netdb newlib nl_types nss obstack paths poll printf proc_service pthread pty pwd re_comp regex
regexp reent resolv sched search semaphore setjmp sgtty shadow signal spawn stab stdalign stdarg stdatomic stdbit
stdbool stdc stdckdint stddef stdint stdio stdlib stdnoreturn string strings syscall sysexits syslog tar termio termios
tgmath thread_db threads time ttyent uchar ucontext ulimit unistd unwind utime utmp utmpx values version wait
wchar wctype wordexp arm_neon arm_mve arm_acle omp ansidecl
"""
# Targets of CMake, libraries that lib/lib<prefix>.a would hide with -Llib, and folders of a package.
_BUILD_WORDS = """
all clean help install preinstall test package package_source edit_cache rebuild_cache
c m rt dl gcc gcov util atomic
main lib src include
"""
RESERVED_PREFIXES = RESERVED | frozenset((_HEADERS + _BUILD_WORDS).split())
MAX_IDENTIFIER = 48
MAX_PREFIX = 32
"""Characters of the prefix of a package."""


def identifier(name: str, fallback: str, *, limit: int = MAX_IDENTIFIER) -> str:
    """Return `name` in lower-case ASCII letters, digits and single underscores; `fallback` where nothing is left.

    The result starts with a letter, does not end in an underscore and has at most `limit` characters. It may be a
    reserved word; the caller must check that.
    """
    letters = (char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    plain = "".join(letters).encode("ascii", "replace").decode("ascii")
    words = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")
    if not words:
        return fallback
    if words[0].isdigit():
        words = f"{fallback}_{words}"
    return words[:limit].rstrip("_")


def package_name(stem: str, limit: int = MAX_IDENTIFIER) -> str:
    """Make a lower-case C identifier of ``stem`` (a file name without its suffix), never empty.

    ``"MobileNet V2-1.0"`` becomes ``"mobilenet_v2_1_0"``, ``"2net"`` becomes ``"model_2net"``. A reserved name
    (``RESERVED_PREFIXES``) gets the prefix ``model_``. No more than ``limit`` characters of the stem count.
    """
    name = identifier(stem, "model", limit=limit)
    return f"model_{name}" if name in RESERVED_PREFIXES else name


def package_version(text: str) -> tuple[int, int, int]:
    """Return major, minor and patch of ``"X.Y.Z"``; raises ValueError for any other text."""
    match = re.fullmatch(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", text, re.ASCII)
    if match is None:
        raise ValueError(f"must be three numbers such as 1.0.0, not {text!r}")
    return int(match[1]), int(match[2]), int(match[3])


def checked_package_name(name: str) -> str:
    """Return ``name`` if it can be the prefix of a package as it stands; raises ValueError for any other."""
    if not is_package_name(name):
        raise ValueError(
            "must have only letters, digits and single underscores and be no C keyword, C header or make "
            f"target, not {name!r}: '{package_name(name, MAX_PREFIX)}' would do"
        )
    if len(name) > MAX_PREFIX:
        raise ValueError(f"must have {MAX_PREFIX} characters at most, as the prefix of every C symbol, not {len(name)}")
    return name


def require_package_name(name: str | None) -> None:
    """Raise UsageError where a ``name`` is given that `checked_package_name` refuses."""
    try:
        checked_package_name("model" if name is None else name)
    except ValueError as error:
        raise UsageError(f"the name of the package {error}") from None


def is_package_name(name: str) -> bool:
    """Whether ``name`` can be used unchanged."""
    return package_name(name) == name.lower() and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None
