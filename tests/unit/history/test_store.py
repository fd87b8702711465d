# SPDX-License-Identifier: Apache-2.0
"""Records are written whole, never changed, and read past whatever is damaged."""

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.unit.history.builders import at, record, series
from vllm_perf.history import store as store_module
from vllm_perf.history.index import INDEX_NAME
from vllm_perf.history.record import SeriesStatus
from vllm_perf.history.store import Store, StoreError

SAVES = 100


def _save_many(directory: Path, writer: str) -> None:
    for number in range(SAVES):
        Store(directory).save(record(run_id=f"{writer}{number}", created=at(number)))
        if number % 10 == 0:
            Store(directory).contents()


def test_a_run_saved_is_a_run_found(tmp_path: Path) -> None:
    original = record()
    path = Store(tmp_path).save(original)
    assert Store(tmp_path).load(path.name) == original
    assert [entry.run_id for entry in Store(tmp_path).contents().runs] == ["run1"]


def test_two_processes_saving_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_save_many, args=(tmp_path, name)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    contents = Store(tmp_path).contents()
    assert not contents.warnings
    assert {entry.run_id for entry in contents.runs} == {f"{w}{n}" for w in "ab" for n in range(SAVES)}
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))


def test_a_stored_run_is_never_written_over(tmp_path: Path) -> None:
    path = Store(tmp_path).save(record())
    before = path.read_bytes()
    with pytest.raises(StoreError, match="never changed"):
        Store(tmp_path).save(record(series(value=1.0)))
    assert path.read_bytes() == before


def test_names_begin_with_four_digits_and_sort_by_time(tmp_path: Path) -> None:
    late = Store(tmp_path).save(
        record(run_id="late", created="2026-08-30T10:00:00+02:00", commit="ab12" * 10)
    )
    early = Store(tmp_path).save(record(run_id="early", created="2026-08-30T07:00:00+00:00"))
    assert late.name == "2026_0830T080000000000Z_ab12ab12a_late.json"
    assert early.name < late.name


def test_a_corrupt_file_is_named_and_the_rest_still_works(tmp_path: Path) -> None:
    Store(tmp_path).save(record())
    broken = tmp_path / "2026_0101T000000000000Z_x_y.json"
    broken.write_text('{"benchmarks": [')
    for _ in ("read", "from the index"):
        contents = Store(tmp_path).contents()
        assert [entry.run_id for entry in contents.runs] == ["run1"]
        assert len(contents.warnings) == 1
        assert contents.warnings[0].startswith(f"{broken}: skipped: not JSON")


def test_a_file_that_was_mended_is_read_again(tmp_path: Path) -> None:
    path = Store(tmp_path).save(record())
    good = path.read_text()
    path.write_text("")
    assert len(Store(tmp_path).contents().warnings) == 1
    path.write_text(good)
    contents = Store(tmp_path).contents()
    assert not contents.warnings
    assert len(contents.runs) == 1


def test_a_good_file_that_was_damaged_later_is_noticed(tmp_path: Path) -> None:
    path = Store(tmp_path).save(record())
    assert len(Store(tmp_path).contents().runs) == 1
    path.write_text(path.read_text()[:500])
    contents = Store(tmp_path).contents()
    assert not contents.runs
    assert path.name in contents.warnings[0]


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "noise"])
def test_the_index_may_be_lost_or_damaged(tmp_path: Path, damage: str) -> None:
    for number in range(3):
        Store(tmp_path).save(record(run_id=f"r{number}", created=at(number)))
    expected = Store(tmp_path).contents()
    index = tmp_path / INDEX_NAME
    text = index.read_text()
    index.unlink()
    if damage != "gone":
        index.write_text({"empty": "", "cut": text[: len(text) // 2], "noise": "\x00{]\n" + text}[damage])
    assert Store(tmp_path).contents() == expected
    assert Store(tmp_path).contents() == expected


def test_the_index_gives_what_the_files_say(tmp_path: Path) -> None:
    Store(tmp_path).save(
        record(
            series(),
            series(metric="gone", value=None, status=SeriesStatus.FAILED),
            dirty=True,
            commit="a" * 40,
        )
    )
    read = Store(tmp_path).contents().runs[0]
    indexed = Store(tmp_path).contents().runs[0]
    assert indexed.series == read.series
    assert indexed.environment_of(indexed.series[0].key) == read.environment_of(read.series[0].key)
    assert (indexed.commit, indexed.dirty, indexed.branch) == ("a" * 40, True, "main")


def test_removed_runs_leave_the_index_small(tmp_path: Path) -> None:
    store = Store(tmp_path)
    paths = [store.save(record(run_id=f"r{number}", created=at(number))) for number in range(20)]
    store.contents()
    before = (tmp_path / INDEX_NAME).stat().st_size
    assert not store.remove(path.name for path in paths[:-2])
    store.save(record(run_id="new", created=at(50)))
    assert [entry.run_id for entry in store.contents().runs] == ["r18", "r19", "new"]
    assert (tmp_path / INDEX_NAME).stat().st_size < before / 2
    assert [entry.run_id for entry in store.contents().runs] == ["r18", "r19", "new"]


def test_a_directory_that_is_not_there_is_an_empty_history(tmp_path: Path) -> None:
    assert not Store(tmp_path / "none").contents().runs
    assert not (tmp_path / "none").exists()


def test_a_directory_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file").save(record())
    with pytest.raises(StoreError, match="cannot be read"):
        Store(tmp_path / "file").contents()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        Store(tmp_path).save(record())
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_hard_links_still_refuses_to_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    Store(tmp_path).save(record())
    with pytest.raises(StoreError, match="never changed"):
        Store(tmp_path).save(record())
    assert len(Store(tmp_path).contents().runs) == 1


def test_a_fresh_checkout_does_not_read_every_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        Store(tmp_path).save(record(run_id=f"r{number}", created=at(number)))
    before = Store(tmp_path).contents()
    for path in tmp_path.glob("*.json"):
        os.utime(path, ns=(1, 1))

    def refuse(text: str) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(store_module, "from_json", refuse)
    assert Store(tmp_path).contents() == before
    index = (tmp_path / INDEX_NAME).stat().st_size
    assert Store(tmp_path).contents() == before
    assert (tmp_path / INDEX_NAME).stat().st_size == index


def test_another_content_of_the_same_size_is_noticed(tmp_path: Path) -> None:
    path = Store(tmp_path).save(record(run_id="aaaa"))
    Store(tmp_path).contents()
    path.write_text(path.read_text().replace("aaaa", "bbbb"))
    assert [entry.run_id for entry in Store(tmp_path).contents().runs] == ["bbbb"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    Store(tmp_path).save(record())
    (tmp_path / "2026_x.json").symlink_to(tmp_path / "nowhere.json")
    (tmp_path / "2026_folder.json").mkdir()
    contents = Store(tmp_path).contents()
    assert len(contents.runs) == 1
    assert not contents.warnings


def test_a_time_of_creation_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no ISO 8601 time"):
        Store(tmp_path).save(record(created="yesterday"))


def test_loading_what_is_not_there_or_no_record_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none\.json: cannot be read: No such file"):
        Store(tmp_path).load("none.json")
    (tmp_path / "text.json").write_text("text")
    with pytest.raises(StoreError, match=r"text\.json: not JSON"):
        Store(tmp_path).load("text.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=r"bytes\.json: 'utf-8' codec"):
        Store(tmp_path).load("bytes.json")


def test_a_corrupt_file_stays_known_through_checkouts_and_clean_ups(tmp_path: Path) -> None:
    store = Store(tmp_path)
    paths = [store.save(record(run_id=f"r{number}", created=at(number))) for number in range(8)]
    broken = tmp_path / "2026_broken.json"
    broken.write_text("{")
    before = store.contents().warnings
    os.utime(broken, ns=(1, 1))
    assert store.contents().warnings == before
    store.remove(path.name for path in paths[1:])
    store.save(record(run_id="new", created=at(50)))
    assert store.contents().warnings == before
    assert store.contents().warnings == before


def test_a_run_that_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (failure,) = Store(tmp_path).remove(["folder.json"])
    assert failure.startswith(f"{tmp_path / 'folder.json'}: cannot be deleted")


def test_reading_many_runs_for_the_first_time_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "WORTH_SAYING", 3)
    said: list[str] = []
    for number in range(3):
        Store(tmp_path).save(record(run_id=f"run{number}", created=at(number)))
    for _ in range(2):
        assert len(Store(tmp_path, say=said.append).contents().runs) == 3
    assert said == ["reading 3 stored runs that no index holds yet (once; a thousand take seconds)"]
