"""Compiles the loops that Python can't afford; everything else about the package stands in pyproject.toml.

Without Cython or a C compiler the package installs all the same, and in ``kafkapy/records`` ``scan.py``,
``compact.py``, ``entries.py`` and ``alike.py`` run interpreted.
"""

from setuptools import Extension, setup


def compiled_modules() -> list[Extension]:
    """The extensions to build, none without Cython; a failing compiler is no error (``optional``)."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    extensions = cythonize(
        [f"kafkapy/records/{name}.py" for name in ("scan", "compact", "entries", "alike")],
        build_dir="build",  # keeps the C file out of the wheel
        compiler_directives={
            "language_level": 3,
            "annotation_typing": False,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
        },
    )
    for extension in extensions:
        extension.optional = True  # cythonize drops the flag of the extensions that it is given
    return list(extensions)


setup(ext_modules=compiled_modules())
