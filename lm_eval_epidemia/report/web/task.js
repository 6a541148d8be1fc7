// The page of a task: what was asked and found, and what every model answered, condition by
// condition. What is open is in the address, so that a link opens the same.
"use strict";

(() => {
  const { script, read, make, percent, figure } = window.epidemia;
  const received = {};
  epidemia.receive = (name, data) => { received[name] = whole(data); };

  // Numbers are written short, see `explorer.task_data`: here they are rows of probabilities again.
  function whole(data) {
    const number = data.levels.length;
    const pairs = (text) => text && Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 36));
    const rows = (packed, unit) => {
      if (!packed) return null;
      if (number === 2) return packed.map((x) => [x / unit, 1 - x / unit]);
      return Array.from({ length: packed.length / number }, (_, i) => packed.slice(i * number, (i + 1) * number).map((x) => x / unit));
    };
    const [low, high] = [rows(data.low, 1e5), rows(data.high, 1e5)];
    if (number === 2) low.forEach((row, i) => { [row[1], high[i][1]] = [high[i][1], row[1]]; });
    const given = data.given.map((places) => places.map((place, v) => data.labels[v][place]));
    const questions = data.questions ?? data.given.map((places) => data.question.replace(/\x1a(\d+)\x1a/g, (_, v) => data.phrases[v][places[v]]));
    const models = data.models.map((one) => ({ score: null, error: null, l1: null, population: null, diagnostics: {}, anchors: data.anchors, cells: null, ...one, q: rows(pairs(one.q), 1e3) }));
    return { ...data, given, questions, low, high, p: rows(data.p, 1e5), weight: data.weight.map((x) => x / 1e6), models };
  }

  // What distances are called, between which a score lies.
  const ANCHORS = { "D zero": "Distance at 0", "D mean": "Distance of averages", "D perfect": "Distance at 100", l1_population: "distance from the population" };

  const panel = () => document.getElementById("panel");
  const index = () => read("index");

  function state() {
    const found = new URLSearchParams(location.hash.slice(1));
    return {
      task: found.get("task"), model: found.get("model"),
      cell: Number.parseInt(found.get("cell") ?? "", 10), answer: Number.parseInt(found.get("answer") ?? "0", 10), view: found.get("view"),
    };
  }

  function go(changes) {
    const now = { ...state(), ...changes };
    const kept = new URLSearchParams();
    for (const key of ["task", "model", "cell", "answer", "view"]) {
      if (now[key] !== null && now[key] !== undefined && !Number.isNaN(now[key])) kept.set(key, now[key]);
    }
    location.hash = kept.toString();
  }

  // The panel.

  async function open() {
    const { task, model } = state();
    const known = index();
    if (!task) return;
    if (!Object.hasOwn(known.tasks, task)) {
      panel().replaceChildren(make("h1", {}, "Task"), make("p", {}, `There is no task ${task} among these results.`));
      return;
    }
    try {
      await script(`data/${known.tasks[task]}.js`);
    } catch (error) {
      panel().replaceChildren(make("h1", {}, "Task"), make("p", {}, `${error.message}: is the site's folder complete?`));
      return;
    }
    if (state().task !== task) return;
    const data = received[task];
    // The one asked for, or the first whose answers are here.
    const chosen = data.models.findIndex((one) => one.name === model);
    const place = chosen >= 0 ? chosen : Math.max(0, data.models.findIndex((one) => one.q));
    show(data, data.models[place] ?? NOBODY, place);
  }

  // Stands for a model where none was asked the task.
  const NOBODY = { name: "", reference: false, score: null, error: null, population: null, population_error: null, l1: null, diagnostics: {}, cells: null, q: null };

  function show(data, model, place) {
    const asked = state();
    const most = data.weight.indexOf(Math.max(...data.weight));
    const cell = asked.cell >= 0 && asked.cell < data.given.length ? asked.cell : most;
    const answer = asked.answer >= 0 && asked.answer < data.levels.length ? asked.answer : 0;
    const row = model.q === null ? -1 : model.cells === null ? cell : model.cells.indexOf(cell);
    const q = row < 0 ? null : model.q[row];

    const step = (by) => data.models[(place + by + data.models.length) % data.models.length].name;
    const button = (text, id, act) => {
      const element = make("button", { type: "button", id }, text);
      element.addEventListener("click", act);
      return element;
    };
    const select = make("select", { id: "model" });
    data.models.forEach((one) => select.append(make("option", { value: one.name }, one.name)));
    select.value = model.name;
    select.addEventListener("change", () => go({ model: select.value }));

    panel().replaceChildren(
      make("h1", { id: "open", tabindex: "-1" }, data.title),
      make("p", { class: "quiet" }, `${data.name}; ${data.survey.toUpperCase()} ${data.vintage}; `, make("a", { href: `survey-${data.survey}.html` }, "data card")),
      make("h2", {}, data.heading),
      conditions(data, cell),
      make("pre", { id: "question" }, data.questions[cell] + data.tail),
      make("p", { class: "quiet" }, `${data.n[cell] ? `${data.n[cell].toLocaleString("en")} sampled units; ` : "Published table; "}`
        + `${percent(data.weight[cell])} of the population in question.`),
      make("h2", {}, "The answers"),
      make("div", { class: "filters" },
        ...(model === NOBODY ? [] : [
          make("label", {}, "Model", select),
          button("Previous model", "previous", () => go({ model: step(-1) })),
          button("Next model", "next", () => go({ model: step(1) }))])),
      facts(data, model),
      answers(data, cell, model, q),
      make("figure", {}, make("div", { id: "distribution", "data-tall": "", style: `--tall:${6 + 1.7 * (data.levels.length === 2 ? 1 : data.levels.length)}rem` })),
      everybody(data, cell, model),
      over(data, model, answer),
      ...(data.models.length ? [make("h2", {}, "Every model"), scores(data, model)] : []),
    );
    document.title = `${data.title} · epidemia`;
    const rows = data.levels.map((level, i) => ({ who: "truth", kind: "survey", answer: level, value: data.p[cell][i], low: data.low[cell][i], high: data.high[cell][i] }));
    data.levels.forEach((level, i) => rows.push({ who: "knows averages only", kind: "respondent", answer: level, value: data.mean[i] }));
    if (q) data.levels.forEach((level, i) => rows.push({ who: model.name, kind: "run", answer: level, value: q[i] }));
    figure(document.getElementById("distribution"), drawing("distribution", model), rows, `Truth${q ? ` and ${model.name}` : ""}, by answer: the table above has the numbers`);
    drawOver(data, model, answer);
    if (data.map) window.epidemia.map(document.getElementById("on-map"), { data, model, cell, answer, view: asked.view, go });
  }

  // Whether "More numbers" is open: it stays so from model to model.
  let unfolded = false;

  function facts(data, model) {
    const number = (value, digits) => (value === null || value === undefined ? "none" : value.toFixed(digits));
    const withError = (value, error) => `${number(value, 1)}${value === null || error === null ? "" : ` ± ${number(error, 1)}`}`;
    const list = (pairs) => make("dl", { class: "facts" }, ...pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
    const said = model === NOBODY ? [] : [["Score", withError(model.score, model.error)], ["Distance", number(model.l1, 4)]];
    const more = model.population === null ? [] : [["Against the population", withError(model.population, model.population_error)]];
    for (const [name, value] of Object.entries(model.diagnostics)) more.push([ANCHORS[name] ?? plain(name), number(value, 3)]);
    for (const [name, value] of Object.entries(model === NOBODY ? data.anchors : model.anchors ?? {})) more.push([ANCHORS[name], number(value, 4)]);
    const details = make("details", unfolded ? { open: "" } : {}, make("summary", {}, "More numbers"), list(more));
    details.addEventListener("toggle", () => { unfolded = details.open; });
    return make("div", { id: "facts" }, ...(said.length ? [list(said)] : []), details);
  }

  // One choice per condition; where the combination does not occur, the nearest that has the
  // changed value is opened.
  function conditions(data, cell) {
    const box = make("div", { class: "filters" });
    data.variables.forEach((variable, v) => {
      const select = make("select", { id: `condition-${v}` });
      [...new Set(data.given.map((labels) => labels[v]))].forEach((label) => select.append(make("option", { value: label }, label)));
      select.value = data.given[cell][v];
      select.addEventListener("change", () => {
        const alike = (labels) => labels.filter((label, i) => label === data.given[cell][i]).length;
        let best = -1;
        data.given.forEach((labels, i) => {
          if (labels[v] === select.value && (best < 0 || alike(labels) > alike(data.given[best]))) best = i;
        });
        go({ cell: best });
        // The panel is made anew; the choice keeps the keyboard.
        setTimeout(() => document.getElementById(`condition-${v}`)?.focus());
      });
      box.append(make("label", {}, plain(variable), select));
    });
    return box;
  }

  function answers(data, cell, model, q) {
    const nobody = model === NOBODY;
    const head = ["Answer", "Truth", "95 % interval", ...(nobody ? [] : [model.name]), "Knows averages only"];
    const table = make("table", { id: "answers" }, make("thead", {}, make("tr", {},
      ...head.map((text, i) => make("th", i ? { class: "number", scope: "col" } : { scope: "col" }, text)))));
    const body = make("tbody");
    data.levels.forEach((level, i) => {
      const exact = data.low[cell][i] === data.high[cell][i];
      const interval = exact ? "exact" : `${percent(data.low[cell][i])} to ${percent(data.high[cell][i])}`;
      const values = [percent(data.p[cell][i]), interval, ...(nobody ? [] : [q ? percent(q[i]) : ""]), percent(data.mean[i])];
      body.append(make("tr", {}, make("td", {}, level), ...values.map((text) => make("td", { class: "number" }, text))));
    });
    table.append(body);
    const box = make("div", { class: "wide", tabindex: "0" }, table);
    if (!q) box.append(make("p", { class: "note" }, nobody ? "No model in this report was asked this." : model.reference
      ? "Only the score was published, not the answers."
      : "No answers of this model: run lm_eval with --log_samples and without --limit."));
    return box;
  }

  function everybody(data, cell, model) {
    const table = make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Model"),
      ...data.levels.map((level) => make("th", { class: "number", scope: "col" }, level)))));
    const body = make("tbody");
    const add = (name, values, kind) => body.append(make("tr", kind ? { class: kind } : {}, make("td", {}, name),
      ...values.map((value) => make("td", { class: "number" }, percent(value)))));
    add("truth", data.p[cell]);
    for (const one of data.models) {
      const row = one.q === null ? -1 : one.cells === null ? cell : one.cells.indexOf(cell);
      if (row >= 0) add(one.name, one.q[row], one === model ? "chosen" : "");
    }
    table.append(body);
    return make("details", {}, make("summary", {}, "All models, this condition"), make("div", { class: "wide", tabindex: "0" }, table));
  }

  function over(data, model, answer) {
    const select = make("select", { id: "answer" });
    data.levels.forEach((level, i) => select.append(make("option", { value: i }, level)));
    select.value = answer;
    select.addEventListener("change", () => go({ answer: Number(select.value) }));
    const single = data.variables.length === 1;
    return make("section", {},
      make("h2", {}, single ? `Over all levels of ${plain(data.variables[0])}` : "Over all conditions"),
      ...(single || data.map ? [make("div", { class: "filters" }, make("label", {}, "Answer", select))] : []),
      ...(data.map ? [make("div", { id: "on-map" })] : []),
      make("figure", {}, make("div", { id: "over", "data-tall": "", style: "--tall:21rem" })),
      make("p", { class: "note" }, make("code", {}, `epidemia plot ${single ? "curve" : "cells"} results/ --task ${data.name} --out NAME.pdf`), " saves it for a paper."));
  }

  function drawOver(data, model, answer) {
    const element = document.getElementById("over");
    const cellOf = (i) => (model.cells === null ? i : model.cells[i]);
    if (data.variables.length === 1) {
      const rows = [];
      // Many conditions in no order, such as countries, stand from the lowest share up.
      const order = data.given.map((_, i) => i);
      if (data.ranked) order.sort((a, b) => data.p[a][answer] - data.p[b][answer]);
      const place = [];
      order.forEach((i, rank) => { place[i] = rank; });
      data.given.forEach(([label], i) => {
        rows.push({ who: "truth", condition: label, place: place[i], value: data.p[i][answer], low: data.low[i][answer], high: data.high[i][answer] });
      });
      data.given.forEach(([label], i) => rows.push({ who: "knows averages only", condition: label, place: place[i], value: data.mean[answer] }));
      data.given.forEach(([label], i) => rows.push({ who: "guesses uniformly", condition: label, place: place[i], value: 1 / data.levels.length }));
      (model.q ?? []).forEach((q, i) => rows.push({ who: model.name, condition: data.given[cellOf(i)][0], place: place[cellOf(i)], value: q[answer] }));
      rows.sort((a, b) => a.place - b.place);
      figure(element, drawing("curve", model), rows, `Share of “${data.levels[answer]}” over ${plain(data.variables[0])}: survey from ${range(data.p, answer)}${model.q ? `, ${model.name} from ${range(model.q, answer)}` : ""}`);
    } else {
      const rows = [];
      (model.q ?? []).forEach((q, i) => data.levels.forEach((level, k) => rows.push({
        given: data.given[cellOf(i)].join(", "), who: model.name, kind: "run", answer: level, truth: data.p[cellOf(i)][k], value: q[k], weight: data.weight[cellOf(i)],
      })));
      if (rows.length) figure(element, drawing("cells", model), rows, `The survey against the model's answer in ${rows.length / data.levels.length} conditions: on the dashed line they are equal`);
      else {
        element.style.minHeight = "0";
        element.replaceChildren(make("p", { class: "note" }, "There are no answers to draw."));
      }
    }
  }

  // A figure's specification, in which a name stands for that of any model.
  const drawing = (name, model) => JSON.parse(JSON.stringify(read(`figure-${name}`)).replaceAll("THE MODEL", JSON.stringify(model.name).slice(1, -1)));

  const plain = (variable) => variable.replaceAll("_", " ");

  const range = (rows, answer) => {
    const values = rows.map((row) => row[answer]);
    return `${percent(Math.min(...values))} to ${percent(Math.max(...values))}`;
  };

  // The scores of all models, best first: a name opens what it answered.
  function scores(data, model) {
    const body = make("tbody");
    const number = (value, digits) => (value === null || value === undefined ? "" : value.toFixed(digits));
    for (const one of [...data.models].sort((a, b) => (b.score ?? -1) - (a.score ?? -1))) {
      const address = new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))), task: data.name, model: one.name });
      const link = one.q ? make("a", { href: `#${address}` }, one.name) : one.name;
      const file = index().models[one.name];
      body.append(make("tr", { class: one === model ? "chosen" : one.reference ? "reference" : "" },
        make("td", {}, link, ...(file ? [" ", make("a", { href: file, class: "quiet", "aria-label": `The page of ${one.name}` }, "its page")] : [])),
        make("td", { class: "number" }, number(one.score, 1) + (one.error === null || one.score === null ? "" : ` ± ${number(one.error, 1)}`)),
        make("td", { class: "number" }, number(one.l1, 4))));
    }
    return make("div", { class: "wide", tabindex: "0" }, make("table", { id: "scores" }, make("thead", {}, make("tr", {},
      make("th", { scope: "col" }, "Model"), make("th", { class: "number", scope: "col" }, "score"), make("th", { class: "number", scope: "col" }, "distance"))), body));
  }

  let before = null;
  async function changed() {
    const { task } = state();
    await open();
    // A newly opened task is brought into sight and gets the keyboard; a change within it does not.
    if (task && task !== before) {
      scrollTo(0, 0);
      document.getElementById("open")?.focus({ preventScroll: true });
    }
    before = task;
  }

  document.addEventListener("DOMContentLoaded", changed);
  window.addEventListener("hashchange", changed);
})();
