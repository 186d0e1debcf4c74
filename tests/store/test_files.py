"""Where a store's file lies."""

from pathlib import Path

import pytest

from flownb.store.files import hide_from_git, network_type, network_type_of

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
me@host: /home/ann/far\\040away fuse.sshfs rw 0 0
tmpfs /lustre tmpfs rw 0 0
mds:/lustre /lustre lustre rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/runs.db", ""),
        ("/home/ann/.flownb/runs.db", "nfs4"),
        ("/homes/ann/runs.db", ""),
        ("/home/local/runs.db", ""),
        ("/home/ann/far away/runs.db", "fuse.sshfs"),
        ("/lustre/runs.db", "lustre"),
    ],
)
def test_a_network_home_is_seen(path: str, expected: str):
    """The deepest mount that holds the path counts, and of two in one place the later."""
    assert network_type(Path(path), MOUNTS) == expected


def test_no_mounts_are_no_network():
    """A machine that does not tell its mounts is taken for a local one."""
    assert network_type(Path("/home/x"), "") == ""
    assert network_type_of(Path("/proc")) == ""


def test_a_hidden_folder_keeps_its_own_gitignore(tmp_path: Path):
    """What a user wrote into it stays."""
    folder = tmp_path / "a" / ".flownb"
    hide_from_git(folder)
    assert (folder / ".gitignore").read_text() == "*\n"
    (folder / ".gitignore").write_text("mine\n")
    hide_from_git(folder)

    assert (folder / ".gitignore").read_text() == "mine\n"
