"""Make the shapes of countries that the site's map draws: `lm_eval_epidemia/report/web/world.json`.

    pip download --no-deps geopandas==0.14.4
    python benchmarks/world_map.py geopandas-0.14.4-py3-none-any.whl

The wheel carries Natural Earth's admin 0 countries at 1:110 million (naturalearthdata.com, public
domain); what has no code in ISO 3166 but Kosovo is there under Natural Earth's own. Antarctica is
left out. Coordinates are rounded to a tenth of a degree, half a pixel of a map that is 1,800 wide.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

OUT = Path(__file__).parent.parent / "lm_eval_epidemia/report/web/world.json"

SHA256 = "3bb6473cb59d51e1a7fe2dbc24a1a063fb0ebdeddf3ce08ddbf8c7ddc99689aa"
INSIDE = "geopandas/datasets/naturalearth_lowres/naturalearth_lowres"

#: What ISO 3166 has no code for: that which the European Union uses.
KOSOVO = "XKX"
LEFT_OUT = ["ATA"]

Point = tuple[float, float]
Ring = list[Point]


def codes(table: bytes) -> Iterator[str]:
    """Yield the ISO 3166 code of every record of a dBase table."""
    records, header, length = struct.unpack_from("<IHH", table, 4)
    start = 1  # behind the mark of deletion
    for at in range(32, header - 1, 32):
        name, size = table[at : at + 11].split(b"\0")[0], table[at + 16]
        if name == b"iso_a3":
            break
        start += size
    for number in range(records):
        place = header + number * length + start
        code = table[place : place + size].decode("latin-1").strip()
        yield KOSOVO if code == "-99" else code


def polygons(shapes: bytes) -> Iterator[list[Ring]]:
    """Yield the rings of every record of a shapefile, outer ones clockwise."""
    at = 100
    while at < len(shapes):
        _, words = struct.unpack_from(">II", shapes, at)
        kind, _, _, _, _, parts, points = struct.unpack_from("<i4dii", shapes, at + 8)
        assert kind == 5, f"shape of type {kind}, expected a polygon"
        first = struct.unpack_from(f"<{parts}i", shapes, at + 52)
        flat = struct.unpack_from(f"<{2 * points}d", shapes, at + 52 + 4 * parts)
        line = [*zip(flat[::2], flat[1::2], strict=True)]
        ends = [*first[1:], points]
        yield [line[start:end] for start, end in zip(first, ends, strict=True)]
        at += 8 + 2 * words


def area(ring: Ring) -> float:
    """Return twice the area of a ring, in square degrees: negative where it is clockwise."""
    return sum(x * v - u * y for (x, y), (u, v) in pairwise(ring))


def rounded(ring: Ring) -> Ring:
    """Round a ring to a tenth of a degree; empty where nothing is left of it."""
    points = [(round(x, 1) + 0.0, round(y, 1) + 0.0) for x, y in ring]
    kept = points[:1] + [point for before, point in pairwise(points) if point != before]
    assert area(kept) * area(ring) >= 0, "a ring turned over"
    return kept if area(kept) else []


def polygons_of(rings: list[Ring]) -> list[list[Ring]]:
    """Part rings into polygons: a hole follows the ring that it is in."""
    polygons: list[list[Ring]] = []
    for ring in rings:
        if area(ring) > 0:
            polygons[-1].append(ring)
        else:
            polygons.append([ring])
    return polygons


def main() -> None:
    """Read the wheel, write the shapes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel
    if (sha := hashlib.sha256(wheel.read_bytes()).hexdigest()) != SHA256:
        raise SystemExit(f"{wheel} has the sha256 {sha}, expected {SHA256}: geopandas 0.14.4")
    with ZipFile(wheel) as files:
        table, shapes = (files.read(f"{INSIDE}.{kind}") for kind in ("dbf", "shp"))
    world = {
        code: polygons_of([ring for ring in map(rounded, rings) if ring])
        for code, rings in zip(codes(table), polygons(shapes), strict=True)
        if code not in LEFT_OUT
    }
    lines = [
        f"{json.dumps(code)}:{json.dumps(world[code], separators=(',', ':'))}".replace(".0", "")
        for code in sorted(world)
    ]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{OUT.name}: {len(world)} countries, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
