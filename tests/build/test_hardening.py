"""The binaries have what the hardening options promise."""

import os
import re

import pytest

from build_tree import BIN, BUILD, PROGRAMS, run

pytestmark = pytest.mark.skipif(os.environ.get("ELASTRIPE_HARDENING", "ON") != "ON",
                                reason="this build was configured without hardening")


def readelf(option, program):
    return run("readelf", "--wide", option, BIN / program).stdout


@pytest.mark.parametrize("program", PROGRAMS)
class TestPrograms:
    def test_it_is_position_independent(self, program):
        assert re.search(r"Type:\s+DYN", readelf("--file-header", program))
        assert re.search(r"FLAGS_1.*\bPIE\b", readelf("--dynamic", program))

    def test_symbols_are_bound_at_the_start_and_then_read_only(self, program):
        assert re.search(r"FLAGS_1.*\bNOW\b", readelf("--dynamic", program))
        assert "GNU_RELRO" in readelf("--program-headers", program)

    def test_no_memory_is_writable_and_executable(self, program):
        segments = re.findall(r"^\s+(LOAD|GNU_STACK)\s+(?:0x\w+\s+){5}([RWE ]+?)\s+\w+$",
                              readelf("--program-headers", program), re.MULTILINE)
        assert {"LOAD", "GNU_STACK"} <= {kind for kind, _ in segments}
        assert not [s for s in segments if "W" in s[1] and "E" in s[1]]

    def test_stacks_are_protected_and_copies_checked(self, program):
        symbols = readelf("--dyn-syms", program)
        assert "__stack_chk_fail" in symbols
        assert re.search(r"\b__(mem|str|v?s?n?printf|read|recv)\w*_chk\b", symbols)

    def test_the_standard_library_asserts(self, program):
        if program == "elastripe":  # short-lived, and whether the compiler left any call is chance
            pytest.skip("no server")
        assert "__glibcxx_assert_fail" in readelf("--dyn-syms", program)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="of that processor")
@pytest.mark.parametrize("name", ["main.cc.o", "slabs.c.o"])
def test_indirect_branches_have_marked_targets(name):
    """Of our C++ and of memcached's C. A program is marked as a whole only where the system's start
    files are: those of Debian 12 are not."""
    objects = list((BUILD / "server-patches").rglob(name))
    assert objects
    newest = max(objects, key=lambda path: path.stat().st_mtime)  # older ones are of older sources
    notes = run("readelf", "--notes", newest).stdout
    assert "IBT" in notes and "SHSTK" in notes
