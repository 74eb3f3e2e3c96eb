"""x86-64, with its levels v2 to v4 (x86-64 psABI) as the vectors of a host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgetune.target.costs import Costs
from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.cpu_features import CpuidBit
from edgetune.target.isa.cpuinfo import listed_features
from edgetune.target.isa.instruction_set import HostCpu, InstructionSet
from edgetune.target.isa.vector_instructions import Instruction, Rows, VectorInstructions

_AVX, _AVX512 = 0x06, 0xE6  # bits required in XCR0: SSE and AVX state, and that of AVX-512
_FEATURES = {
    "sse": CpuidBit(1, 0, "edx", 25),
    "sse2": CpuidBit(1, 0, "edx", 26),
    "sse3": CpuidBit(1, 0, "ecx", 0),
    "pclmul": CpuidBit(1, 0, "ecx", 1),
    "ssse3": CpuidBit(1, 0, "ecx", 9),
    "fma": CpuidBit(1, 0, "ecx", 12, _AVX),
    "sse4.1": CpuidBit(1, 0, "ecx", 19),
    "sse4.2": CpuidBit(1, 0, "ecx", 20),
    "movbe": CpuidBit(1, 0, "ecx", 22),
    "popcnt": CpuidBit(1, 0, "ecx", 23),
    "avx": CpuidBit(1, 0, "ecx", 28, _AVX),
    "f16c": CpuidBit(1, 0, "ecx", 29, _AVX),
    "bmi": CpuidBit(7, 0, "ebx", 3),
    "avx2": CpuidBit(7, 0, "ebx", 5, _AVX),
    "bmi2": CpuidBit(7, 0, "ebx", 8),
    "avx512f": CpuidBit(7, 0, "ebx", 16, _AVX512),
    "avx512dq": CpuidBit(7, 0, "ebx", 17, _AVX512),
    "avx512ifma": CpuidBit(7, 0, "ebx", 21, _AVX512),
    "avx512cd": CpuidBit(7, 0, "ebx", 28, _AVX512),
    "avx512bw": CpuidBit(7, 0, "ebx", 30, _AVX512),
    "avx512vl": CpuidBit(7, 0, "ebx", 31, _AVX512),
    "avx512vbmi": CpuidBit(7, 0, "ecx", 1, _AVX512),
    "avx512vbmi2": CpuidBit(7, 0, "ecx", 6, _AVX512),
    "avx512vnni": CpuidBit(7, 0, "ecx", 11, _AVX512),
    "avx512bitalg": CpuidBit(7, 0, "ecx", 12, _AVX512),
    "avx512fp16": CpuidBit(7, 0, "edx", 23, _AVX512),
    "avxvnni": CpuidBit(7, 1, "eax", 4, _AVX),
    "avx512bf16": CpuidBit(7, 1, "eax", 5, _AVX512),
}
# Features that a host uses: the name in /proc/cpuinfo by that of __builtin_cpu_supports. The flag is -m<feature>.
_CPUINFO = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avxvnni": "avx_vnni",
}
_V2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
_V3 = _V2 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2"}
_V4 = _V3 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}
_LEVELS = (("x86-64-v4", _V4, 512, 32), ("x86-64-v3", _V3, 256, 16), ("x86-64-v2", _V2, 128, 16))
# An extension counts only with its vector level: without the full v4 set, avx512vnni code could trap.
_EXTRAS = {"x86-64-v4": {"avx512vnni", "avx512bf16", "avxvnni"}, "x86-64-v3": {"avxvnni"}}


def _gcc(feature: str, name: str, text: str) -> tuple[Instruction]:
    """A builtin for GCC alone; clang finds the instruction."""
    return (Instruction(feature, text, f"__builtin_ia32_{name}", "gcc"),)


def _multiply_adds(
    feature: str, gcc: str, clang: str, text: str, count: float = 1.0
) -> tuple[Instruction, Instruction]:
    """A builtin that GCC and clang call by different names; only GCC's has a mask, of which clang needs none."""
    gcc, clang = f"__builtin_ia32_{gcc}", f"__builtin_ia32_{clang}"
    mask = ", ({rest}){{0}}, 0xffff" if gcc.endswith("_mask") else ""
    return (
        Instruction(feature, text.replace("MASK", mask), gcc, "gcc", count),
        Instruction(feature, text.replace("MASK", ""), clang, "clang", count),
    )


def _masked(feature: str, name: str, text: str, mask: str, clang: str = "") -> tuple[Instruction, ...]:
    """Builtins of GCC and clang; MASK in `text` is all lanes, and the rounding where that can be chosen.

    `clang`: the same for clang, where the types differ: GCC's mask of 16 lanes has a sign.
    """
    if not clang:
        return (Instruction(feature, text.replace("MASK", mask), name),)
    return (
        Instruction(feature, text.replace("MASK", mask), name, "gcc"),
        Instruction(feature, text.replace("MASK", clang), name, "clang"),
    )


def _scaling(feature: str, bits: str, *masks: str) -> tuple[Instruction, ...]:
    return _masked(feature, f"__builtin_ia32_scalefps{bits}_mask", "{p} = {name}({p}, {k}, {p}, MASK);", *masks)


def _exponents(feature: str, bits: str, *masks: str) -> tuple[Instruction, ...]:
    """With 11, what is left lies between 3/4 and 3/2, and is NaN for negative numbers."""
    exponent = f"__builtin_ia32_getexpps{bits}_mask"
    text = "{m} = {name}({x}, 11, {x}, MASK);\n    {e} = GETEXP({x}, {x}, MASK) - GETEXP({m}, {m}, MASK);"
    return _masked(feature, f"__builtin_ia32_getmantps{bits}_mask", text.replace("GETEXP", exponent), *masks)


# VNNI sums products of pairs; the older instruction needs an addition after it.
_DOT = "(({rest}){name}((c), {low}, (b)))"
_PAIRS = "(({rest})(({wide})(c) + ({wide}){name}(({halves}){low}, ({halves})(b)MASK)))"
_ADD_DOT = "*sums = ({rest}){name}(*sums, {all}, {own});"
_ADD_PAIRS = (
    "*sums = ({rest})(({wide})*sums + ({wide}){name}(({halves}){all}, ({halves}){own}MASK));\n"
    '    __asm__("" : "+v"(*sums)); /* GCC adds several products first, and spills them */'
)
_VNNI, _VNNI_VL = "__AVX512VNNI__", "__AVX512VNNI__) && defined(__AVX512VL__"
_LOW_BYTES = """typedef char bytes __attribute__((vector_size(32)));
    const bytes low = {{0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};
    const i32x8 fours = (i32x8){name}((bytes)*v, low);
    *r = ({short}x8)((i64x2)(i32x4){{fours[0], fours[4], 0, 0}})[0];"""
"""Those of eight lanes: GCC would narrow them to 16 bits first."""

_WIDENED = {
    4: "(i16x8)__builtin_ia32_pmovsxbw128((c8x16)(i64x2){{(int64_t)*(const i8x8u *)w, 0}})",
    8: "(i16x16)__builtin_ia32_pmovsxbw256((c8x16)*(const i8x16u *)w)",
    16: "(i16x32)__builtin_ia32_pmovsxbw512_mask((char __attribute__((vector_size(32))))*(const i8x32u *)w, "
    "(i16x32){{0}}, ~0u)",
}
"""The bytes of the lanes as numbers of 16 bits, of which GCC makes no one instruction by itself, and clang does."""


def _dots_of_halves(*, bytes_of_lanes: bool) -> Rows:
    """VPDPWSSD or PMADDWD; `bytes_of_lanes`: the numbers of the lanes are bytes in memory."""

    def rows(lanes: int, vnni: str, width: str, feature: str, masked: str = "") -> tuple[Instruction, ...]:
        found = (
            *_multiply_adds(vnni, f"vpdpwssd_v{lanes}si", f"vpdpwssd{width}", _ADD_DOT),
            *_multiply_adds(feature, f"pmaddwd{width}{masked}", f"pmaddwd{width}", _ADD_PAIRS, 2.0),
        )
        own = f"({{rest}}){_WIDENED[lanes]}" if bytes_of_lanes else "{own}"
        return tuple(
            one if one.compiler == "clang" else replace(one, text=one.text.replace("{own}", own)) for one in found
        )

    return {
        4: rows(4, _VNNI_VL, "128", "__SSE4_1__" if bytes_of_lanes else "__SSE2__"),
        8: rows(8, _VNNI_VL, "256", "__AVX2__"),
        16: rows(16, _VNNI, "512", "__AVX512BW__", "_mask"),
    }


def _lane_pairs(lanes: int) -> tuple[Instruction, ...]:
    """The instructions of dot products; the bytes of x and y that a lane has lie side by side first."""
    bytes_, halves = f"i8x{2 * lanes}", f"i16x{2 * lanes}"
    turns = [str(place) for pair in zip(range(lanes), range(lanes, 2 * lanes), strict=True) for place in pair]
    rows = ",\n        ".join(", ".join(turns[at : at + _COLUMNS]) for at in range(0, len(turns), _COLUMNS))
    both = f"const {bytes_} both = __builtin_shufflevector({{x}}, {{y}},\n        {rows});\n    "
    widened = {
        "gcc": (_WIDENED[lanes].replace(f"*(const {bytes_}u *)w", "both"), "{own}"),
        "clang": (
            f"__builtin_convertvector(both, {halves})",
            f"({{rest}})__builtin_convertvector(*(const {bytes_}u *)w, {halves})",
        ),
    }
    found = []
    for one in _dots_of_halves(bytes_of_lanes=True)[lanes]:
        data, own = widened[one.compiler]
        text = one.text.replace("{all}", f"({{rest}}){data}").replace("{own}", own)
        found.append(replace(one, text=both + text, count=one.count + 2))
    return tuple(found)


_COLUMNS = 16


_HALVES = "typedef short halves __attribute__((vector_size({0}), aligned(2), may_alias));\n    "
"""The type of vectors of halves in memory."""


def _half(feature: str, name: str, size: int, text: str) -> tuple[Instruction]:
    return (Instruction(feature, _HALVES.format(size) + text, f"__builtin_ia32_{name}", "gcc"),)


_BYTES = """typedef {{value}} bytes __attribute__((vector_size({0})));
    typedef short halves __attribute__((vector_size({0})));
    const halves zeros = (halves){{{{0}}}} + (short)zero;
    """
_ONE_OF_4 = """const halves half = __builtin_ia32_paddsw128(__builtin_ia32_packssdw128({v0}, {v0}), zeros);
    bytes all = (bytes){name}(half, half);"""
_ONE_OF_8 = """typedef long long pairs __attribute__((vector_size(32)));
    const pairs all_lanes = (pairs){v0};
    const i32x4 low_lanes = (i32x4)__builtin_ia32_extract128i256(all_lanes, 0);
    const i32x4 high_lanes = (i32x4)__builtin_ia32_extract128i256(all_lanes, 1);
    const halves half = __builtin_ia32_paddsw128(__builtin_ia32_packssdw128(low_lanes, high_lanes), zeros);
    bytes all = (bytes){name}(half, half);"""
_FOUR = """const halves first = __builtin_ia32_paddswBITS(__builtin_ia32_packssdwBITS({v0}, {v1}), zeros);
    const halves second = __builtin_ia32_paddswBITS(__builtin_ia32_packssdwBITS({v2}, {v3}), zeros);
    bytes all = (bytes){name}(first, second);"""
_IN_ORDER = """
    all = (bytes)__builtin_ia32_permvarsi256((i32x8)all, (i32x8){{0, 4, 1, 5, 2, 6, 3, 7}});"""


def _narrowing(feature: str, size: int, text: str, count: float) -> tuple[Instruction]:
    """`text` ends with a builtin that narrows two vectors of `size` bytes."""
    whole = _BYTES.format(size) + text.replace("BITS", str(8 * size))
    return (Instruction(feature, whole, f"__builtin_ia32_pack{{sign}}swb{8 * size}", "gcc", count),)


def _nearest(feature: str, bits: str, mask: str = "") -> tuple[Instruction]:
    """The largest float below 2^31 comes first: what is beyond the integers, or NaN, gives the least one."""
    text = f"*r = {{name}}(__builtin_ia32_minps{bits}(({{rest}}){{{{0}}}} + 0x1.fffffep30f, *vMIN)MASK);"
    lower, more = (", ({rest}){{0}}, -1, 4", ", ({ints}){{0}}, -1, 4") if mask else ("", "")
    name = f"__builtin_ia32_cvtps2dq{bits}"
    text = text.replace("MIN", lower).replace("MASK", more)
    return (Instruction(feature, text, name, "any" if not mask else "gcc", count=2.0),)


_HIGH_PRODUCT = """typedef uint64_t halves __attribute__((vector_size(sizeof(*x))));
    const halves nudge = (halves){{0}} + (1u << 30);
    const halves even = ((halves){name}(*x, mMASK) + nudge) >> 31;
    const halves odd = ((halves){name}(({rest})((halves)*x >> 32), ({rest})((halves)m >> 32)MASK) + nudge) << 1;
    const {rest} high = ({rest})BLEND;"""
"""Products of 64 bits, those of even lanes and those of odd ones: GCC multiplies numbers of 64 bits instead."""


def _high_product(feature: str, name: str, blend: str, mask: str = "") -> tuple[Instruction]:
    text = _HIGH_PRODUCT.replace("MASK", mask).replace("BLEND", blend)
    return (Instruction(feature, text, f"__builtin_ia32_{name}", "gcc", count=8.0),)


_VECTORS = VectorInstructions(
    min_max={
        4: _gcc("__SSE__", "{word}ps", "*a = {name}(*b, *a);"),
        8: _gcc("__AVX__", "{word}ps256", "*a = {name}(*b, *a);"),
        16: _gcc("__AVX512F__", "{word}ps512_mask", "*a = {name}(*b, *a, *a, -1, 4);"),
    },
    scaling={
        4: _scaling("__AVX512VL__", "128", "0xff"),
        8: _scaling("__AVX512VL__", "256", "0xff"),
        16: _scaling("__AVX512F__", "512", "-1, 4", "0xffff, 4"),
    },
    exponents={
        4: _exponents("__AVX512VL__", "128", "0xff"),
        8: _exponents("__AVX512VL__", "256", "0xff"),
        16: _exponents("__AVX512F__", "512", "-1, 4", "0xffff, 4"),
    },
    rounding={
        4: _gcc("__SSE4_1__", "roundps", "*v = {name}(x, {mode});"),
        8: _gcc("__AVX__", "roundps256", "*v = {name}(x, {mode});"),
        16: _gcc("__AVX512F__", "rndscaleps_mask", "*v = {name}(x, {mode}, x, -1, 4);"),
    },
    square_root={
        4: _gcc("__SSE__", "sqrtps", "*v = {name}(x);"),
        8: _gcc("__AVX__", "sqrtps256", "*v = {name}(x);"),
        16: _gcc("__AVX512F__", "sqrtps512_mask", "*v = {name}(x, x, -1, 4);"),
    },
    signs={
        4: (Instruction("__SSE__", "return {name}((f32x4)*v) != 0;", "__builtin_ia32_movmskps"),),
        8: (Instruction("__AVX__", "return {name}((f32x8)*v) != 0;", "__builtin_ia32_movmskps256"),),
        16: (Instruction("__AVX512DQ__", "return {name}(*v) != 0;", "__builtin_ia32_cvtd2mask512"),),
    },
    halves={
        8: _gcc(
            "__AVX__",
            "vinsertf128_ps256",
            "*v = {name}(__builtin_ia32_ps256_ps(*(const f32x4u *)low), *(const f32x4u *)high, 1);",
        )
    },
    clang_rounds="__SSE4_1__",
    multiply_add={
        4: (
            *_multiply_adds(_VNNI_VL, "vpdpwssd_v4si", "vpdpwssd128", _DOT),
            *_multiply_adds("__SSE2__", "pmaddwd128", "pmaddwd128", _PAIRS),
        ),
        8: (
            *_multiply_adds(_VNNI_VL, "vpdpwssd_v8si", "vpdpwssd256", _DOT),
            *_multiply_adds("__AVX2__", "pmaddwd256", "pmaddwd256", _PAIRS),
        ),
        16: (
            *_multiply_adds(_VNNI, "vpdpwssd_v16si", "vpdpwssd512", _DOT),
            *_multiply_adds("__AVX512BW__", "pmaddwd512_mask", "pmaddwd512", _PAIRS),
        ),
    },
    dot={
        "dot_u8_i8_4": {
            4: (
                *_multiply_adds(_VNNI_VL, "vpdpbusd_v4si", "vpdpbusd128", _ADD_DOT),
                *_multiply_adds("__AVXVNNI__", "vpdpbusd_v4si", "vpdpbusd128", _ADD_DOT),
            ),
            8: (
                *_multiply_adds(_VNNI_VL, "vpdpbusd_v8si", "vpdpbusd256", _ADD_DOT),
                *_multiply_adds("__AVXVNNI__", "vpdpbusd_v8si", "vpdpbusd256", _ADD_DOT),
            ),
            16: _multiply_adds(_VNNI, "vpdpbusd_v16si", "vpdpbusd512", _ADD_DOT),
        },
        "dot_i16_i16_2": _dots_of_halves(bytes_of_lanes=False),
        "dot_i16_i8_2": _dots_of_halves(bytes_of_lanes=True),
    },
    lane_pairs={8: _lane_pairs(8), 16: _lane_pairs(16)},
    widen={
        lanes: (Instruction(feature, f"*r = ({{signed}}){{name}}({arguments});", f"__builtin_ia32_pmov{{s}}xbd{name}"),)
        for lanes, feature, name, arguments in (
            (4, "__SSE4_1__", "128", "(c8x16)(i32x4){{(int32_t)*(const {short}x4u *)p, 0, 0, 0}}"),
            (8, "__AVX2__", "256", "(c8x16)(i64x2){{(int64_t)*(const {short}x8u *)p, 0}}"),
            (16, "__AVX512F__", "512_mask", "(c8x16)*(const {short}x16u *)p, (i32x16){{0}}, 0xffff"),
        )
    },
    from_half={
        4: _half(
            "__F16C__",
            "vcvtph2ps",
            16,
            "halves low = {{0}};\n    __builtin_memcpy(&low, p, 8);\n    *r = {name}(low);",
        ),
        8: _half("__F16C__", "vcvtph2ps256", 16, "*r = {name}(*(const halves *)p);"),
        16: _half("__AVX512F__", "vcvtph2ps512_mask", 32, "*r = {name}(*(const halves *)p, (f32x16){{0}}, -1, 4);"),
    },
    to_half={
        4: _half(
            "__F16C__", "vcvtps2ph", 16, "const halves low = (halves){name}(*v, 0);\n    __builtin_memcpy(p, &low, 8);"
        ),
        8: _half("__F16C__", "vcvtps2ph256", 16, "*(halves *)p = (halves){name}(*v, 0);"),
        16: _half(
            "__AVX512F__", "vcvtps2ph512_mask", 32, "*(halves *)p = (halves){name}(*v, 0, (halves){{0}}, 0xffff);"
        ),
    },
    narrow={
        4: _gcc("__AVX512VL__", "pmovdb128_mask", "*r = ({short}x4)((i32x4){name}(*v, (c8x16){{0}}, 0xf))[0];"),
        8: (
            *_gcc("__AVX512VL__", "pmovdb256_mask", "*r = ({short}x8)((i64x2){name}(*v, (c8x16){{0}}, 0xff))[0];"),
            *_gcc("__AVX2__", "pshufb256", _LOW_BYTES),
        ),
        16: _gcc("__AVX512F__", "pmovdb512_mask", "*r = ({short}x16){name}(*v, (c8x16){{0}}, 0xffff);"),
    },
    nearest={
        4: _nearest("__SSE2__", ""),
        8: _nearest("__AVX__", "256"),
        16: _nearest("__AVX512F__", "512_mask", "MASK"),
    },
    narrow_one={4: _narrowing("__SSE2__", 16, _ONE_OF_4, 3.0), 8: _narrowing("__AVX2__", 16, _ONE_OF_8, 4.0)},
    narrow_four={4: _narrowing("__SSE2__", 16, _FOUR, 5.0), 8: _narrowing("__AVX2__", 32, _FOUR + _IN_ORDER, 7.0)},
    high_product={
        4: _high_product(
            "__SSE4_1__",
            "pmuldq128",
            "__builtin_ia32_pblendw128((short __attribute__((vector_size(16))))even, "
            "(short __attribute__((vector_size(16))))odd, 0xcc)",
        ),
        8: _high_product("__AVX2__", "pmuldq256", "__builtin_ia32_pblendd256((i32x8)even, (i32x8)odd, 0xaa)"),
        16: _high_product(
            "__AVX512F__",
            "pmuldq512_mask",
            "__builtin_ia32_blendmd_512_mask((i32x16)even, (i32x16)odd, 0xaaaa)",
            ", (long long __attribute__((vector_size(64)))){{0}}, 0xff",
        ),
    },
    float_registers={
        4: (("defined(__SSE__)", "v"),),
        8: (("defined(__x86_64__)", "v"),),  # in 32-bit code, vectors of 8 bytes would be MMX registers
        16: (("defined(__SSE__)", "v"),),
        32: (("defined(__AVX__)", "v"),),
        64: (("defined(__AVX512F__)", "v"),),
    },
)


def describe_host(cpuinfo: str, cc: str, native: Callable[[str], str | None]) -> HostCpu:
    """Describe the CPU of `cpuinfo`; features without their base are left out."""
    listed = listed_features(cpuinfo, "flags")
    present = {feature for feature, name in _CPUINFO.items() if name in listed}
    level, base, bits, registers = "x86-64", set[str](), 128, 16
    for name, needed, width, count in _LEVELS:
        if needed <= present:
            level, base, bits, registers = name, needed, width, count
            break
    extras = _EXTRAS.get(level, set())
    used = tuple(feature for feature in _CPUINFO if feature in base | (extras & present))
    flags = [f"-m{feature}" for feature in used]
    if bits == 512:  # noqa: PLR2004 (GCC prefers 256 bits by itself)
        flags.append("-mprefer-vector-width=512")
    if tune := native(cc):
        flags.append(f"-mtune={tune}")
    return HostCpu(
        cpu=level,
        vector_bits=bits,
        vector_registers=registers,
        machine_flags=tuple(flags),
        has_float16=True,
        cpu_checks=used,
        dot=DotProduct(elements=4, signs="us") if {"avx512vnni", "avxvnni"} & set(used) else None,
        llvm_features=tuple(f"+{feature}" for feature in used if feature in extras),
    )


X86_64 = InstructionSet(
    name="x86_64",
    machines=("x86_64", "amd64"),
    bits=64,
    features=_FEATURES,
    host_triple="x86_64-linux-gnu",
    describe_host=describe_host,
    tvm_wheels=True,
    other_modes="`-m32` with SSE2",
    least_swept_bytes=64 << 20,  # the L3 cache of these machines is far larger than the L2 cache
    library_vector_bytes=64,
    dot=DotProduct(elements=2),
    folds_loads=True,
    broadcast_operand_bits=512,
    # Two each cycle that take four: eight accumulators are just enough, and a late load is never made up for.
    costs=Costs(operations_in_flight=10),
    vectors=_VECTORS,
)
