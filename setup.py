"""The one compiled file; everything else about the package is in pyproject.toml."""

from setuptools import Extension, setup

# Optional: without a compiler everything still runs, on NumPy alone, with the same answers and slower in short loops.
# -fno-trapping-math and -fno-math-errno change no result; they allow several numbers to be worked on at once.
fused = Extension(
    "certeq.risk._fused",
    ["src/certeq/risk/_fused.c"],
    extra_compile_args=["-O3", "-fopenmp-simd", "-fno-trapping-math", "-fno-math-errno"],
    py_limited_api=True,
    optional=True,
)
setup(ext_modules=[fused], options={"bdist_wheel": {"py_limited_api": "cp311"}})
