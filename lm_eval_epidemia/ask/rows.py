"""A split whose rows are read a thousand at a time.

lm-eval reads the rows of every task twice, one by one, and `datasets` decodes each as a separate
table, which takes longer than anything else done with a prompt, except the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datasets
import pyarrow as pa
from datasets.fingerprint import generate_random_fingerprint
from datasets.table import InMemoryTable

#: Rows decoded at a time.
BATCH = 1000


class Rows(datasets.Dataset):
    """A `datasets.Dataset` in memory that yields the same rows faster.

    Whatever is derived from it, with a format or a selection, is read as any other dataset is.
    """

    @classmethod
    def of(cls, columns: dict[str, list[Any]], features: datasets.Features) -> Rows:
        """Build a split from its columns, whose values have the types of the features already.

        Parameters
        ----------
        columns : dict of str to list
        features : datasets.Features
            Numbers, strings and lists of them.
        """
        table = pa.table(columns, schema=features.arrow_schema)
        return cls(
            InMemoryTable(table),
            info=datasets.DatasetInfo(features=features),
            # Otherwise one is worked out from all that the table holds; nothing is cached under it.
            fingerprint=generate_random_fingerprint(),
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self._indices is not None or self._format_type or self._format_columns:
            yield from super().__iter__()
            return
        names = self.column_names
        for start in range(0, self.num_rows, BATCH):
            part = self.data.slice(start, BATCH)
            columns = [part.column(name).to_pylist() for name in names]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))
