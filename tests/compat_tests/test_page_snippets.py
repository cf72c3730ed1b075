"""The snippets that the runner of the pages finds in a page, and the errors that it reports."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.pages import shell as shell_module
from compat_tests.pages import snippets
from compat_tests.pages.shell import Shell, SnippetFailedError, alone
from compat_tests.pages.snippets import Snippet
from harness.java_programs import MissingToolchainError

PAGE = """# First

<!-- file: a.ini -->
```ini
key=1
```

- in a list:

  ```bash
  for each in 1; do
      echo $each
  done
  ```

  ```text
  1
  ```

## Second

```python
print(2)
```

Words between them:

```text
not its output
```
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    try:
        prefix = alone(tmp_path)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with Shell(tmp_path, os.environ, prefix) as found:
        yield found


def snippet(text: str, language: str = "bash") -> Snippet:
    return Snippet(1, language, text, "", is_output=language == "text")


def test_sections_have_their_files_commands_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    monkeypatch.setattr(snippets, "ROOT", tmp_path)
    first, second = snippets.sections("page.md")
    assert (first.heading, second.heading) == ("First", "Second")
    file, commands, output = first.snippets
    assert (file.file, file.text, file.runs) == ("a.ini", "key=1\n", False)
    assert (commands.text, commands.runs) == ("for each in 1; do\n    echo $each\ndone\n", True)
    assert (output.text, output.is_output) == ("1\n", True)
    assert [each.runs for each in second.snippets] == [True, False]
    assert not second.snippets[1].is_output


def test_a_network_has_all_ports_and_a_variable_outlives_its_snippet(shell: Shell) -> None:
    listen = "python3 -m http.server 9092 --bind zoo & server=$!\n"
    shell.run(snippet(listen))
    shell.run(
        snippet("until (echo > /dev/tcp/zoo/9092) 2>/dev/null; do sleep 0.05; done; kill $server; wait $server\n")
    )
    shell.stop()


@pytest.mark.parametrize(
    ("text", "language"),
    [("false\necho after\n", "bash"), ("false | true\n", "bash"), ("raise SystemExit(3)\n", "python")],
)
def test_a_failure_ends_the_section(shell: Shell, text: str, language: str) -> None:
    with pytest.raises(SnippetFailedError, match="a command ended with"):
        shell.run(snippet(text, language))


def test_a_background_process_that_has_failed_ends_the_section(shell: Shell) -> None:
    shell.run(snippet("false & sleep 0.2\n"))
    with pytest.raises(SnippetFailedError, match="a command ended with 1"):
        shell.stop()


def test_output_has_each_line_of_the_page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "OUTPUT_TIMEOUT_S", 0.2)
    shell.run(snippet("echo earlier\n"))
    shell.run(snippet("echo 12 records of 3; echo end\n"))
    shell.run(snippet("end\n… records of …\n", "text"))
    for missing in ("records of 3\n", "12 records of 4\n", "earlier\n"):
        with pytest.raises(SnippetFailedError, match="not printed"):
            shell.run(snippet(missing, "text"))


def test_what_never_ends_is_a_failure(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_module, "SNIPPET_TIMEOUT_S", 0.2)
    with pytest.raises(SnippetFailedError, match="did not end"):
        shell.run(snippet("sleep 100\n"))
