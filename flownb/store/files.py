"""Where a store's file lies, and what its file system can do."""

from __future__ import annotations

from pathlib import Path

#: File systems without the shared memory that SQLite's write-ahead log needs: homes of many hubs lie on one.
NETWORK = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "pvfs2", "smb2", "smb3", "smbfs",
    "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
})  # fmt: skip


def network_type(path: Path, mounts: str) -> str:
    """Type of the network file system that a path lies on, "" if it is on none.

    Args:
        path: Absolute, without symbolic links.
        mounts: Text of `/proc/mounts`; later lines hide earlier ones of the same place.
    """
    below = f"{path}/"
    found, depth = "", -1
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        # By their text: a `Path` for each of the mounts took a third of the time in which a store opens.
        place = _unescaped(words[1]).rstrip("/") + "/"
        if len(place) >= depth and below.startswith(place):
            found, depth = words[2], len(place)
    return found if found in NETWORK else ""


def network_type_of(path: Path) -> str:
    """The same for this machine; "" where it does not tell its mounts."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "surrogateescape")
    except OSError:  # macOS, Windows
        return ""
    return network_type(path.resolve(), mounts)


def hide_from_git(folder: Path) -> None:
    """Make a folder whose whole content git ignores; a `.gitignore` that is there is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(folder / ".gitignore", "x", encoding="utf-8") as file:
            file.write("*\n")
    except FileExistsError:
        return


def _unescaped(place: str) -> str:
    if "\\" not in place:
        return place
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        place = place.replace(code, character)
    return place
