"""What `rankd config check` says where no site is found."""

from rankd.cli.main import main


def test_names_of_resources_that_can_not_be_checked_are_listed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANKD_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("RANKD_DB", raising=False)
    (tmp_path / "rankd.toml").write_text('[priority.fairshare]\nbilling = { vcore = 1.0, "gpu:a10" = 2.0 }\n')
    assert main(["config", "check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Not checked: whether nodes have gpu:a10. No nodes")
