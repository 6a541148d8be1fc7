"""Downloads from a real server on loopback: whole, resumed, refused, and what a person must do."""

import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys import catalogue as records
from lm_eval_epidemia.surveys.raw import download, fetch, raw_folder, raw_paths
from lm_eval_epidemia.surveys.record import File

pytest.importorskip("pooch")
CONTENT = bytes(range(256)) * 20_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; drops the first connection halfway, when told to."""

    drop_next = False
    ranges: list = []

    def do_GET(self):
        if self.path == "/page":
            body = b"<html>please enable JavaScript</html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        if self.path == "/forbidden":
            self.send_error(403)
            return
        asked = self.headers.get("Range")
        type(self).ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Type", "application/zip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if type(self).drop_next:
            type(self).drop_next = False
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Handler.ranges, Handler.drop_next = [], False
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def get(url, target, sha256=SHA256):
    return fetch(url, target, sha256, "https://example.org/by-hand", progress=False)


def test_a_file_is_fetched_once(server, tmp_path):
    target = tmp_path / "new" / "file.zip"
    assert get(f"{server}/file.zip", target).read_bytes() == CONTENT
    get(f"{server}/file.zip", target)
    assert Handler.ranges == [None]
    assert [path.name for path in target.parent.iterdir()] == ["file.zip"]


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    Handler.drop_next = True
    target = tmp_path / "file.zip"
    kept = r"bytes are kept.*again to continue.*example\.org/by-hand"
    with pytest.raises(EpidemiaError, match=kept):
        get(f"{server}/file.zip", target)
    kept = (tmp_path / "file.zip.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    assert get(f"{server}/file.zip", target).read_bytes() == CONTENT
    assert Handler.ranges == [None, f"bytes={kept}-"]


def test_a_part_that_is_already_whole_is_taken(server, tmp_path):
    (tmp_path / "file.zip.part").write_bytes(CONTENT)
    assert get(f"{server}/file.zip", tmp_path / "file.zip").read_bytes() == CONTENT


def test_another_file_than_the_known_one_is_refused(server, tmp_path):
    with pytest.raises(EpidemiaError, match=r"replaced: its sha256 is not 0000"):
        get(f"{server}/file.zip", tmp_path / "file.zip", "0" * 64)
    assert list(tmp_path.glob("file.zip*")) == []


@pytest.mark.parametrize(("path", "said"), [("page", "web page"), ("forbidden", "403")])
def test_a_site_that_wants_a_browser(server, tmp_path, path, said):
    with pytest.raises(EpidemiaError, match=rf"{said}.*browser.*example\.org/by-hand.*--raw"):
        get(f"{server}/{path}", tmp_path / "file.zip")


def test_every_file_of_a_vintage_is_fetched_into_its_folder(server, home):
    """Records want https; this one is changed behind the schema's back to reach the loopback."""
    scf = records.find_record("scf")
    entry = scf.vintages["2022"]
    files = [
        File.model_construct(name=name, url=f"{server}/{name}", sha256=SHA256, members=())
        for name in ("one.zip", "two.zip")
    ]
    vintages = {"2022": entry.model_copy(update={"files": tuple(files)})}
    changed = scf.model_copy(update={"vintages": vintages})
    folder = download(changed, progress=False)
    assert folder == raw_folder("scf", "2022")
    assert folder.is_relative_to(home)
    assert sorted(path.name for path in folder.iterdir()) == ["one.zip", "two.zip"]


def test_files_are_those_given_or_those_downloaded(home):
    scf, path = records.find_record("scf"), Path("mine.dta")
    assert raw_paths(scf, path, None) == raw_paths(scf, [path], None) == ([path], None)
    raw_folder("scf", "2022").mkdir(parents=True)
    assert raw_paths(scf, None, None) == ([raw_folder("scf", "2022")], "2022")


def test_addresses_of_records_are_https():
    for entry in records.records().values():
        for vintage in entry.vintages.values():
            assert vintage.page.startswith("https://")
            for file in vintage.files:
                assert file.url is None or file.url.startswith("https://")
                assert file.sha256 is None or len(file.sha256) == 64
