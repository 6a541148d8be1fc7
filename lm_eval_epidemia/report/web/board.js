// The tables of models: one row per model, until its other runs or a setting are asked for.
"use strict";

document.addEventListener("tables-ready", () => {
  const { tables } = window.epidemia;
  for (const element of document.querySelectorAll("table.board")) {
    const table = tables[element.id], open = new Set();
    const select = document.querySelector(`[data-settings="${element.id}"]`);
    const chosen = (number) => {
      const { model, place, chips } = table.row(number).node().dataset;
      if (select?.value) return chips.split("|").includes(select.value);
      return place === "0" || open.has(model);
    };
    table.search.fixed("runs", (_text, _data, number) => chosen(number));
    // A column in which no chosen row has a value is left out.
    const draw = () => {
      const rows = table.rows().indexes().toArray().filter(chosen);
      for (const column of table.columns().indexes().toArray()) {
        const filled = rows.some((row) => table.cell(row, column).data().trim());
        table.column(column).visible(!rows.length || filled, false);
      }
      table.draw();
    };
    select?.addEventListener("change", draw);
    element.addEventListener("click", ({ target }) => {
      if (!target.matches("[data-more]")) return;
      const { model } = target.closest("tr").dataset;
      if (!open.delete(model)) open.add(model);
      target.setAttribute("aria-expanded", open.has(model));
      draw();
    });
    draw();
  }
});
