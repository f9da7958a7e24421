"""How a test types a command: what it prints, and how it refuses."""

import pytest

from dpgap.cli import main


@pytest.fixture
def printed(capsys):
    def run(*arguments: str) -> str:
        main(arguments)
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys):
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return " ".join(said.split())

    return run
