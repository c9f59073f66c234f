"""cmake --install puts a usable elastripe into a prefix, and its manual is true."""

import re
import sys

import pytest

from build_tree import BIN, BUILD, PROGRAMS, SOURCE, run

sys.path.insert(0, str(SOURCE / "tests/support"))

from cluster import free_ports  # noqa: E402

PAGES = {"elastripe": "man1/elastripe.1", "elastripe-node": "man8/elastripe-node.8",
         "elastripe-proxy": "man8/elastripe-proxy.8"}
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_everything_is_in_its_place(prefix):
    doc = "share/doc/elastripe"
    for name in [*(f"bin/{p}" for p in PROGRAMS), *(f"share/man/{p}" for p in PAGES.values()),
                 f"{doc}/LICENSE", f"{doc}/LICENSE.memcached", f"{doc}/examples/elastripe.yaml"]:
        assert (prefix / name).is_file(), name
    wanted = {*PROGRAMS, "elastripe-bench"}
    assert {p.name for p in (prefix / "bin").iterdir()} == wanted


def test_the_benchmarks_are_a_component(tmp_path):
    run("cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "bench")
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["elastripe-bench"]


def test_the_example_is_a_configuration(prefix):
    example = next((prefix / "share/doc").rglob("elastripe.yaml"))
    run(prefix / "bin/elastripe-proxy", "--config", example, "--check-config")


def test_what_is_installed_runs_a_cluster(prefix, tmp_path):
    cli = prefix / "bin/elastripe"
    cluster = ["--dir", tmp_path / "cluster"]
    try:
        run(cli, "cluster", "start", *cluster, "--nodes", 3, "--scheme", "rep:2", "--port",
            free_ports(5))
    finally:
        run(cli, "cluster", "stop", *cluster)


def help_of(program, *command):
    return run(BIN / program, *command, "--help").stdout


def options_of(text):
    """Of a help text: those that it lists, each with all its names."""
    names = set()
    for line in text.split("\n"):
        if match := re.match(r"\s+(-[\w,-]+)", line):
            names |= {name for name in match[1].split(",") if name.startswith("-")}
    return names - {"-h", "--help"}


def commands_of(*command):
    """All commands below, with their options."""
    text = help_of("elastripe", *command)
    found = {" ".join(command): options_of(text)}
    if "\nSubcommands:" in text:
        for name in re.findall(r"^  ([a-z-]+)  ", text.split("\nSubcommands:")[1], re.MULTILINE):
            # the benchmarks have a program of their own
            found |= {"bench": set()} if name == "bench" else commands_of(*command, name)
    return found


def test_the_example_configuration_is_what_the_proxy_prints():
    printed = run(BIN / "elastripe-proxy", "--example-config").stdout
    assert printed == (SOURCE / "docs/config.example.yaml").read_text()


def page(program):
    return (SOURCE / "docs/man" / PAGES[program].split("/")[1]).read_text()


def options_in(roff):
    """Of a section of a manual page: what its tagged lines name."""
    tags = re.findall(r"^\.TP\n(.*)$", roff, re.MULTILINE)
    return {o for tag in tags for o in OPTION.findall(tag.replace("\\-", "-"))} - {"-h", "--help"}


@pytest.mark.parametrize("program", ["elastripe-node", "elastripe-proxy"])
def test_the_manual_of_a_server_has_its_options(program):
    assert options_in(page(program)) == options_of(help_of(program))


def test_the_manual_of_the_command_has_all_commands_and_their_options():
    head, *sections = re.split(r"^\.SS ", page("elastripe"), flags=re.MULTILINE)
    described = {"": options_in(head)}
    for section in sections:
        words = re.match(r"[a-z -]*[a-z]\b(?![A-Z])", section.replace("\\-", "-"))[0]
        described[words.strip()] = options_in(section)
    real = commands_of()
    groups = {name for name, options in real.items()
              if not options and any(other.startswith(name + " ") for other in real)} - {"node", "job"}
    assert described == {name: options for name, options in real.items() if name not in groups}
