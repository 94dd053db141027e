"""The one compiled file; everything else about the package is in pyproject.toml."""

import zlib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildExt(build_ext):
    """Flags for the compiler that is there.

    -fno-trapping-math and -fno-math-errno change no result; they and -fopenmp-simd, which needs no library, allow
    several numbers to be worked on at once. MSVC is asked for nothing but optimization.
    """

    def build_extensions(self):
        flags = ["-O3", "-fopenmp-simd", "-fno-trapping-math", "-fno-math-errno"]
        for extension in self.extensions:
            extension.extra_compile_args = ["/O2"] if self.compiler.compiler_type == "msvc" else flags
        super().build_extensions()


# Optional: without a compiler everything still runs, on NumPy alone, with the same answers and slower in short loops.
SOURCE = "src/certeq/risk/_fused.c"
fused = Extension("certeq.risk._fused", [SOURCE], py_limited_api=True, optional=True)
# The module knows which source it was built from, so that an old build beside a new source is told apart.
fused.define_macros = [("CERTEQ_SOURCE", f"{zlib.crc32(Path(SOURCE).read_bytes())}u")]
setup(
    ext_modules=[fused],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
