// On the page of a task with a condition that is a country: truth, answers or errors on a map, of one
// answer, and of people who are alike in the other conditions.
"use strict";

window.epidemia.map = (() => {
  const { script, read, make, percent, figure } = window.epidemia;

  // Puts the map into an element; `over` has the task, the model, cell and answer that are chosen, the
  // view (truth, answer or error), and what changes these.
  function show(element, over) {
    const { data, model, cell, answer, go } = over;
    const views = { truth: "truth", ...(model.q ? { answer: model.name, error: "error: answer minus truth" } : {}) };
    const view = Object.hasOwn(views, over.view) ? over.view : Object.keys(views).at(-1);
    const select = (id, label, choices, chosen, change) => {
      const box = make("select", { id });
      Object.entries(choices).forEach(([value, text]) => box.append(make("option", { value }, text)));
      box.value = chosen;
      box.addEventListener("change", () => go(change(box.value)));
      return make("label", {}, label, box);
    };
    const v = data.map.condition, here = data.given[cell];
    const others = data.variables.flatMap((variable, at) => {
      if (at === v) return [];
      const with_ = (label) => data.given.findIndex((labels) => labels.every((one, i) => one === (i === at ? label : here[i])));
      const known = data.labels[at].filter((label) => with_(label) >= 0);
      const choices = Object.fromEntries(known.map((label) => [label, label]));
      return [select(`map-${at}`, variable.replaceAll("_", " "), choices, here[at], (label) => ({ cell: with_(label) }))];
    });
    const countries = countriesOf(data, model, here, answer);
    const drawn = make("div", { id: "map", "data-tall": "" }), note = make("figcaption");
    element.replaceChildren(
      make("div", { class: "filters" }, select("map-view", "On the map", views, view, (value) => ({ view: value })), ...others),
      make("figure", {}, drawn, note),
    );
    // As high as wide maps are, and the legend.
    const height = Math.round(drawn.clientWidth * 0.48);
    drawn.style.setProperty("--tall", `${height + 60}px`);
    return draw(drawn, note, height, countries, view, data.levels[answer], model);
  }

  // What is known of the countries, of people alike in the other conditions.
  function countriesOf(data, model, here, answer) {
    const v = data.map.condition;
    return data.given.flatMap((labels, i) => {
      if (labels.some((label, at) => at !== v && label !== here[at])) return [];
      const row = model.q === null ? -1 : model.cells === null ? i : model.cells.indexOf(i);
      const truth = data.p[i][answer], told = row < 0 ? null : model.q[row][answer];
      const code = data.map.codes[data.labels[v].indexOf(labels[v])];
      return [{ country: labels[v], code, truth, answer: told, error: told === null ? null : told - truth }];
    });
  }

  async function draw(element, note, height, countries, view, level, model) {
    await script("assets/world.js");
    const shapes = new Set(window.epidemia.world.map((shape) => shape.id));
    const small = countries.filter((one) => !shapes.has(one.code));
    const says = (one) => `${one.country} (truth ${percent(one.truth)}${one.answer === null ? "" : `, ${model.name} ${percent(one.answer)}`})`;
    note.textContent = `Outlines only: countries without data.${small.length ? ` Too small to draw: ${small.map(says).join(", ")}.` : ""} Shapes: Natural Earth.`;
    const rows = view === "error"
      ? countries.filter((one) => one.error !== null)
      : countries.filter((one) => one[view] !== null).map((one) => ({ country: one.country, code: one.code, p: one[view] }));
    const values = countries.filter((one) => one[view] !== null).map((one) => one[view]);
    const range = `${percent(Math.min(...values))} to ${percent(Math.max(...values))}`;
    const what = { truth: `Share of “${level}”, the truth`, answer: `Share of “${level}” as ${model.name} answers`, error: `Answer of ${model.name} minus truth, share of “${level}”` };
    const specification = { ...read(view === "error" ? "figure-errors" : "figure-shares"), height };
    // Truth and answers are on one scale, so that a colour means the same in either view.
    const both = countries.flatMap((one) => [one.truth, one.answer]).filter((share) => share !== null);
    if (view !== "error") specification.layer[1].encoding.color.scale.domain = [Math.min(...both), Math.max(...both)];
    await figure(element, specification, rows, `World map. ${what[view]}: from ${range} in ${values.length} countries`, { world: window.epidemia.world });
  }

  return show;
})();
