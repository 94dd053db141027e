"""The one compiled file, and what holds addresses; everything else about the package is in pyproject.toml."""

import os
import re
import subprocess
import zlib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# None of these changes a result. -fno-trapping-math, -fno-math-errno and -fopenmp-simd, which needs no library, allow
# several numbers to be worked on at once. Clang would tell about every loop that it leaves as it is. MSVC has no such
# flags; /fp:precise is its default, stated because the code relies on it. A compiler that is none of these optimizes.
FLAGS = {
    "gcc": ["-O3", "-fopenmp-simd", "-fno-trapping-math", "-fno-math-errno"],
    "clang": ["-O3", "-fopenmp-simd", "-fno-trapping-math", "-fno-math-errno", "-Wno-pass-failed"],
    "msvc": ["/O2", "/fp:precise", "/std:c11"],
    "other": ["-O2"],
}


def compiler_name(compiler):
    """Which entry of FLAGS a compiler of setuptools goes by; Clang often calls itself cc or gcc, so it is asked."""
    if compiler.compiler_type == "msvc":
        return "msvc"
    try:
        command = [*compiler.compiler[:1], "--version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.lower()
    except (AttributeError, OSError, subprocess.SubprocessError):
        return "other"
    if "clang" in said:
        return "clang"
    return "gcc" if "gcc" in said or "free software foundation" in said else "other"


class BuildExt(build_ext):
    """Flags for the compiler that is there."""

    def build_extensions(self):
        flags = FLAGS[compiler_name(self.compiler)]
        for extension in self.extensions:
            extension.extra_compile_args = flags
        super().build_extensions()


def project_urls(environment):
    """Addresses of the repository whose workflow builds this, and of the pages it publishes; none anywhere else."""
    repository = environment.get("GITHUB_REPOSITORY", "")
    owner, slash, name = repository.partition("/")
    if not slash:
        return {}
    source = f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
    return {
        "Source": source,
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Issues": f"{source}/issues",
        "Changelog": f"{source}/blob/main/CHANGELOG.md",
    }


def long_description(environment):
    """The README; its links into the repository lead there from a package index too, where that is known."""
    text = Path("README.md").read_text(encoding="utf-8")
    source = project_urls(environment).get("Source")
    if source is None:
        return text
    commit = environment.get("GITHUB_SHA", "main")
    text = re.sub(r"(!\[[^]]*\]\()(?!\w+:|#)", rf"\1{source}/raw/{commit}/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!\w+:|#)", rf"\1{source}/blob/{commit}/", text)


# Optional: without a compiler everything still runs, on NumPy alone, with the same answers and slower in short loops.
SOURCE = "src/certeq/risk/_fused.c"
fused = Extension("certeq.risk._fused", [SOURCE], py_limited_api=True, optional=True)
# The module knows which source it was built from, so that an old build beside a new source is told apart.
fused.define_macros = [("CERTEQ_SOURCE", f"{zlib.crc32(Path(SOURCE).read_bytes())}u")]
if __name__ == "__main__":
    setup(
        ext_modules=[fused],
        project_urls=project_urls(os.environ),
        long_description=long_description(os.environ),
        long_description_content_type="text/markdown",
        cmdclass={"build_ext": BuildExt},
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
