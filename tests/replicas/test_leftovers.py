"""What folds left alongside the points: it is removed when nobody needs it, and not before."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from changeling.replicas.staging_folder import folder_of_merge, folder_of_reader, remove_leftovers

NOW = datetime.now(UTC)


def put(place: str, files: int, age: timedelta = timedelta(0)) -> Path:
    """A place with files of that age."""
    folder = Path(place) / "0" / "data"
    folder.mkdir(parents=True)
    for number in range(files):
        (folder / f"{number}.parquet").write_bytes(b"x")
    for path in (*folder.iterdir(), folder, folder.parent, Path(place)):
        os.utime(path, ((NOW - age).timestamp(),) * 2)
    return Path(place)


def test_rows_of_merges_go_when_their_point_is_there_and_those_of_readers_with_time(tmp_path: Path) -> None:
    points, old = f"file:{tmp_path}/points", timedelta(days=9)
    bare = points.removeprefix("file:")
    gone = [put(folder_of_merge(bare, 6), 2), put(folder_of_merge(bare, 7), 1), put(folder_of_merge(bare, 7), 0)]
    gone += [put(folder_of_reader(bare), 1, old), put(folder_of_reader(bare), 0, old)]
    # A merge may take any time, and a reader may still be at it.
    kept = [put(folder_of_merge(bare, 8), 3, old), put(folder_of_merge(bare, 70), 1), put(folder_of_reader(bare), 1)]
    mixed = put(folder_of_reader(bare), 2, old)
    os.utime(mixed / "0" / "data" / "1.parquet")
    other = put(f"{bare}/data", 1, old)
    assert remove_leftovers(points, 7, NOW - timedelta(days=3)) == (11, 4)
    assert [path.exists() for path in gone] == [False] * len(gone)
    assert [path.exists() for path in (*kept, mixed, other)] == [True] * 5
    assert remove_leftovers(points, 7, NOW - timedelta(days=3)) == (7, 0)


def test_there_may_be_nothing(tmp_path: Path) -> None:
    assert remove_leftovers(str(tmp_path / "points"), 7, NOW) == (0, 0)
