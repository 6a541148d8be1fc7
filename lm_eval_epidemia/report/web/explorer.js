// The list of tasks: filters, and the scores of one model beside the best. A task has a page of its
// own; old addresses lead there.
"use strict";

if (location.hash.includes("task=")) location.replace(`task.html${location.hash}`);

document.addEventListener("tables-ready", () => {
  const table = window.epidemia.tables.tasks, { models, tasks } = window.epidemia.read("scores");
  const chosen = [...document.querySelectorAll("[data-filter]")];
  const one = document.getElementById("one"), column = table.columns().count() - 1;

  table.search.fixed("facets", (_text, _data, number) => {
    const row = table.row(number).node();
    return chosen.every((select) => !select.value || row.dataset[select.dataset.filter] === select.value);
  });

  function beside() {
    const place = models.indexOf(one.value);
    document.getElementById("who").title = one.value;
    for (const row of table.rows().nodes().toArray()) {
      const cell = row.cells[column], score = tasks[row.dataset.task]?.[place] ?? null;
      cell.textContent = score ?? "";
    }
    table.rows().invalidate("dom").draw();
  }

  function count() {
    const shown = table.rows({ search: "applied" }).count();
    const every = table.rows().count();
    document.getElementById("shown").textContent = `${shown} of ${every} question${every === 1 ? "" : "s"}`;
  }

  table.on("draw", count);
  const more = document.getElementById("every"), state = document.getElementById("filter-state");
  more?.addEventListener("click", () => { state.value = ""; more.remove(); table.draw(); });
  chosen.forEach((select) => select.addEventListener("change", () => table.draw()));
  if (one) {
    one.addEventListener("change", beside);
    beside();
  } else table.draw();
});
