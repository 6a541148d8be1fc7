// The tables of models: one row per model, until its other runs or a setting are asked for.
"use strict";

document.addEventListener("tables-ready", () => {
  const { tables } = window.epidemia;
  for (const element of document.querySelectorAll("table.board")) {
    const table = tables[element.id], open = new Set();
    const select = document.querySelector(`[data-settings="${element.id}"]`);
    table.search.fixed("runs", (_text, _data, number) => {
      const { model, place, chips } = table.row(number).node().dataset;
      if (select?.value) return chips.split("|").includes(select.value);
      return place === "0" || open.has(model);
    });
    select?.addEventListener("change", () => table.draw());
    element.addEventListener("click", ({ target }) => {
      if (!target.matches("[data-more]")) return;
      const { model } = target.closest("tr").dataset;
      if (!open.delete(model)) open.add(model);
      target.setAttribute("aria-expanded", open.has(model));
      table.draw();
    });
    table.draw();
  }
});
