// A question's page: what the survey says and what models answer, first as a picture. What is open is
// in the address, so that a link opens the same.
"use strict";

(() => {
  const { script, read, make, percent, figure, INK } = window.epidemia;
  const GREY = "#808080", FEW = 4, ROWS = 24;
  const received = {};
  epidemia.receive = (name, data) => { received[name] = whole(data); };

  // Numbers are written short, see `tasks.task_data`: here they are rows of probabilities again.
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
    const models = data.models.map((one) => ({ ...NOBODY, anchors: data.anchors, ...one, q: rows(pairs(one.q), 1e3) }));
    return { ...data, given, questions, low, high, p: rows(data.p, 1e5), weight: data.weight.map((x) => x / 1e6), models };
  }

  // Stands for a model where none was asked.
  const NOBODY = { name: "", model: "", settings: "", kind: "", score: null, error: null, l1: null, worth: null, population: null, population_error: null, diagnostics: {}, cells: null, q: null };

  const WORDS = { "D zero": "Distance at 0", "D mean": "Distance of averages", "D perfect": "Distance at 100", l1_population: "distance from the population" };
  const WHY = { old: "older version or other truth: not comparable", tuned: "fine-tuned", part: "asked in part", published: "published score", respondent: "no model" };
  const plain = (text) => text.replaceAll("_", " ");
  const number = (value, digits) => (value === null || value === undefined ? "" : value.toFixed(digits));
  const whole_ = (share) => `${(100 * share).toFixed(share > 0.005 && share < 0.995 ? 0 : 1)} %`;
  const panel = () => document.getElementById("panel");
  const index = () => read("index");
  const inPage = (name) => ({ "#0072B2": "var(--accent)", "#D55E00": "var(--other)", "#009E73": "var(--known)" })[name] ?? name;
  const colour = (one) => index().colours[one.name] ?? GREY;

  function state() {
    const found = new URLSearchParams(location.hash.slice(1)), place = (key) => Number.parseInt(found.get(key) ?? "", 10);
    return { task: found.get("task"), model: found.get("model"), also: found.getAll("also"), cell: place("cell"), answer: place("answer"), view: found.get("view") };
  }

  function address(changes) {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries({ ...state(), ...changes })) {
      if (key === "also") value.forEach((one) => kept.append(key, one));
      else if (value !== null && value !== undefined && !Number.isNaN(value)) kept.set(key, value);
    }
    return `#${kept}`;
  }
  const go = (changes) => { location.hash = address(changes); };

  async function open() {
    const { task, model } = state(), known = index();
    if (!task) return;
    const none = (text) => panel().replaceChildren(make("h1", {}, "Question"), make("p", {}, text));
    if (!Object.hasOwn(known.tasks, task)) return none(`There is no task ${task} among these results.`);
    try {
      await script(`data/${known.tasks[task]}.js`);
    } catch (error) {
      return none(`${error.message}: is the site's folder complete?`);
    }
    if (state().task !== task) return;
    // The one asked for, or the best whose answers are here: they are listed so.
    const { models } = received[task], by = (fits) => models.find(fits);
    show(received[task], by((one) => one.name === model) ?? by((one) => one.q && one.kind === "run" && !one.old) ?? by((one) => one.kind === "run" && !one.old) ?? by((one) => one.q) ?? models[0] ?? NOBODY);
  }

  const rowOf = (one, cell) => (one.q === null ? -1 : one.cells === null ? cell : one.cells.indexOf(cell));
  const said = (one, cell, answer) => one.q?.[rowOf(one, cell)]?.[answer] ?? null;

  function choose(id, label, choices, chosen, change) {
    const box = make("select", { id });
    choices.forEach(([value, text]) => box.append(make("option", { value }, text)));
    box.value = chosen;
    box.addEventListener("change", () => change(box.value));
    return make("label", {}, label, box);
  }

  function show(data, model) {
    const asked = state(), [worst, missed] = model.worst ?? [data.weight.indexOf(Math.max(...data.weight)), 0];
    const cell = asked.cell >= 0 && asked.cell < data.given.length ? asked.cell : worst;
    const answer = asked.answer >= 0 && asked.answer < data.levels.length ? asked.answer : asked.cell >= 0 ? 0 : missed;
    const others = data.models.filter((one) => one.q && one !== model);
    const also = others.filter((one) => (asked.also.length ? asked.also.includes(one.name) : others.length < FEW && one.kind !== "respondent")).slice(0, FEW - 1);
    const view = { data, model, cell, answer, others, also, q: said(model, cell, answer) };
    const focused = document.activeElement?.id;
    // A choice that is not there opens the nearest that has it.
    const nearest = (v, label) => {
      const alike = (labels) => labels.filter((one, i) => one === data.given[cell][i]).length;
      return data.given.map((labels, i) => [labels[v] === label ? alike(labels) : -1, -i]).sort((a, b) => b[0] - a[0] || b[1] - a[1])[0][1] * -1;
    };
    const pairs = (texts) => texts.map((text) => [text, text]), name = model.name || "nobody";
    panel().replaceChildren(
      make("h1", { id: "open", tabindex: "-1" }, data.title),
      make("p", { class: "verdict", id: "said" }, headline(view)),
      make("div", { class: "filters" },
        ...(model === NOBODY ? [] : [choose("model", "Model", pairs(data.models.map((one) => one.name)), model.name, (value) => go({ model: value }))]),
        ...data.variables.map((variable, v) => choose(`condition-${v}`, plain(variable), pairs([...new Set(data.given.map((labels) => labels[v]))]), data.given[cell][v], (label) => go({ cell: nearest(v, label), answer }))),
        choose("answer", "answer", data.levels.map((level, i) => [i, level]), answer, (value) => go({ answer: Number(value), cell }))),
      ...(data.map ? [make("div", { id: "on-map" })] : []),
      make("figure", {}, make("div", { id: "over", "data-tall": "", style: `--tall:${data.ordered ? 23 : isGroups(data) ? 4 + 2.1 * places(data).length : 27}rem` }), caption(view)),
      downloads(view),
      make("h2", {}, `Every answer, of ${people(data, cell)}`),
      answers(view),
      ...(data.models.length ? [make("h2", {}, "Every model"), ...scores(view)] : []),
      asking(view),
      make("p", { class: "note" }, make("a", { href: `survey-${data.survey}.html` }, `Data card of ${data.survey.toUpperCase()}`), ` · ${data.name} · `, make("a", { href: address({ model: model.name || null, cell, answer }) }, "link to this view")),
    );
    document.title = `${data.title} · epidemia`;
    draw(view);
    if (data.map) window.epidemia.map(document.getElementById("on-map"), { data, model, cell, answer, view: asked.view, go });
    // The panel is made anew; what was chosen keeps the keyboard.
    if (focused) document.getElementById(focused)?.focus();
  }

  const people = (data, cell) => data.who?.[cell] ?? `people (${data.given[cell].join(", ")})`;

  function headline({ data, model, cell, answer, q }) {
    const who = people(data, cell), level = data.levels[answer], p = whole_(data.p[cell][answer]);
    const [survey, other] = data.levels.length === 2 && level === "Yes" ? [`Survey: ${p} of ${who}.`, ` ${model.model}: `] : [`“${level}”: survey ${p} of ${who}`, `, ${model.model} `];
    return survey + (q === null ? "" : `${other}${whole_(q)}.`);
  }

  // A few conditions, or answers, without an order have a row each.
  const places = ({ given, levels }) => (given.length === 1 ? levels : given);
  const isGroups = (data) => !data.ordered && places(data).length <= ROWS;

  function caption({ data, model, others, also }) {
    const grey = others.length - also.length;
    const keys = data.ordered ? [] : [...also, ...(model.q ? [model] : [])].map((one) => make("span", { class: "hue", style: `--dot:${inPage(colour(one))}` }, one.name));
    const reads = data.ordered ? "The band is the survey's 95 % interval." : isGroups(data) ? "Upright lines: the survey, in its 95 % interval; grey ones: knows averages only." : "On the dashed line the answer is the survey's; lines are the survey's 95 % intervals, dots in a row who knows averages only.";
    return make("figcaption", {}, ...keys, `${reads}${grey ? ` Grey: ${grey} other${grey === 1 ? "" : "s"}, tap or point at one for its name, draw up to three in colour from the list below.` : ""}`);
  }

  // The picture: a curve over conditions that have an order, else answers against the survey.
  async function draw({ data, model, cell, answer, others, also }) {
    const rows = [], alone = data.given.length === 1;
    const marks = places(data).map((_, i) => (alone ? [0, i] : [i, answer]));
    const label = (at) => (alone ? data.levels[at] : data.given[at].join(", "));
    const add = (who, kind, colour, share) => {
      const line = { who, colour, values: [] };
      marks.forEach(([at, level], i) => {
        const value = share(at, level), truth = data.p[at][level];
        if (value === null) return;
        line.values[i] = value;
        rows.push({ who, kind, colour, condition: label(alone ? i : at), cell: at, value, truth, low: data.low[at][level], high: data.high[at][level], label: "", size: at === cell && kind === "model" && !alone ? 160 : 60 });
      });
      return line;
    };
    const isNarrow = matchMedia("(max-width: 48rem)").matches;
    const reference = [add(isNarrow ? "averages" : "knows averages only", "reference", GREY, (_, level) => data.mean[level])];
    if (data.ordered) reference.push(add(isNarrow ? "guess" : "guesses uniformly", "reference", GREY, () => 1 / data.levels.length));
    others.filter((one) => !also.includes(one)).forEach((one) => add(one.name, "ghost", GREY, (at, level) => said(one, at, level)));
    const drawn = [...also].reverse().concat(model.q ? [model] : []).map((one) => add(one.model === model.model && one !== model ? one.name : one.model, "model", colour(one), (at, level) => said(one, at, level)));
    const range = (values) => `${percent(Math.min(...values))} to ${percent(Math.max(...values))}`;
    const shares = marks.map(([at, level]) => data.p[at][level]);
    const says = `Share of “${data.levels[answer]}”: survey from ${range(shares)}${model.q ? `, ${model.name} from ${range(drawn.at(-1).values.filter((x) => x !== undefined))}` : ""}`;
    const element = document.getElementById("over"), specification = read(data.ordered ? "figure-curve" : isGroups(data) ? "figure-groups" : "figure-points");
    if (isGroups(data)) {
      specification.height = 30 + 34 * marks.length;
      add("survey", "survey", INK, (at, level) => data.p[at][level]);
    } else if (data.ordered) {
      const survey = add("survey", "survey", INK, (at, level) => data.p[at][level]);
      rows.push(...named([survey, ...drawn.reverse(), ...reference], specification.height, label(data.given.length - 1)));
      rows.push({ kind: "chosen", condition: label(cell) });
      specification.layer.at(-1).mark.limit = Math.min(270, element.clientWidth / 3.6);
    } else {
      if (marks.length < 13) rows.filter((row) => row.who === drawn.at(-1)?.who).forEach((row) => { row.label = row.condition; });
      const every = rows.flatMap((row) => [row.truth, row.value]);
      for (const end of [Math.min(...every), Math.max(...every)]) rows.push({ kind: "alike", colour: GREY, truth: end, value: end });
    }
    // A layer without rows would have a scale without ends.
    specification.layer = specification.layer.filter((layer) => rows.some((row) => layer.transform[0].filter.includes(`'${row.kind}'`)));
    const shown = await figure(element, specification, rows, says);
    shown?.addEventListener("click", (_, item) => { if (item?.mark.marktype !== "line" && item?.datum?.cell >= 0) go({ cell: item.datum.cell, answer }); });
    element.shown = shown;
    element.rows = rows.filter((row) => row.condition !== undefined && !row.at);
  }

  // Names at the ends of lines: lines that coincide have one, and none hides another's.
  function named(lines, height, condition) {
    const ends = [], top = Math.max(...lines.flatMap((line) => line.values.filter((x) => x !== undefined)));
    for (const line of lines.filter((one) => one.values.length)) {
      const same = ends.find((end) => line.values.every((value, i) => Math.abs(value - end.values[i]) < top / 100));
      if (same) same.label += `, ${line.who}`;
      else ends.push({ kind: "name", condition, colour: line.colour, values: line.values, label: line.who, at: line.values.at(-1) });
    }
    // From the nearer edge on, so that no name leaves the picture.
    const side = ends.reduce((sum, end) => sum + end.at, 0) < (ends.length * top) / 2 ? 1 : -1;
    ends.sort((a, b) => side * (a.at - b.at)).forEach((end, i) => { if (i) end.at = side * Math.max(side * end.at, side * ends[i - 1].at + (top * 17) / height); });
    return ends.map(({ values, ...end }) => end);
  }

  function downloads({ data }) {
    const save = (href, end) => make("a", { href, download: `${data.name}.${end}` }).click();
    const drawn = () => document.getElementById("over");
    const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
    const columns = ["who", "kind", "condition", "value", "truth", "low", "high"];
    const kinds = {
      png: () => drawn().shown.toImageURL("png", 2), svg: () => drawn().shown.toImageURL("svg"),
      csv: async () => `data:text/csv;charset=utf-8,${encodeURIComponent([columns, ...drawn().rows.map((row) => columns.map((name) => row[name]))].map((row) => row.map(quoted).join(",")).join("\n"))}`,
    };
    const buttons = Object.entries(kinds).map(([end, make_]) => {
      const button = make("button", { type: "button", id: `save-${end}` }, end);
      button.addEventListener("click", async () => save(await make_(), end));
      return button;
    });
    return make("div", { class: "note" }, "This chart: ", ...buttons.flatMap((one) => [one, " "]), make("details", {}, make("summary", {}, "as a command"), make("code", {}, `epidemia plot ${data.variables.length === 1 ? "curve" : "cells"} results/ --task ${data.name} --out NAME.pdf`)));
  }

  const table = (id, heads, rows) => make("div", { class: "wide", tabindex: "0" }, make("table", { id }, make("thead", {}, make("tr", {},
    ...heads.map((head) => make("th", head.endsWith?.("#") ? { scope: "col", class: "number" } : { scope: "col" }, head.replace?.("#", "") ?? head)))), make("tbody", {}, ...rows)));
  const cells = (texts) => texts.map((text) => make("td", { class: "number" }, text));

  function answers({ data, cell, model, answer }) {
    const nobody = model === NOBODY;
    const rows = data.levels.map((level, i) => {
      const interval = data.low[cell][i] === data.high[cell][i] ? "exact" : `${percent(data.low[cell][i])} to ${percent(data.high[cell][i])}`;
      const texts = [percent(data.p[cell][i]), ...(nobody ? [] : [percent(said(model, cell, i))]), interval, percent(data.mean[i])];
      return make("tr", i === answer ? { class: "chosen" } : {}, make("td", {}, level), ...cells(texts));
    });
    const box = table("answers", ["Answer", "Survey#", ...(nobody ? [] : [make("span", { class: "name", title: model.name }, model.model)]), "95 % interval#", "Averages only#"], rows);
    const size = `${data.n[cell] ? `${data.n[cell].toLocaleString("en")} sampled units; ` : "Published table; "}${percent(data.weight[cell])} of the population in question.`;
    const missing = nobody ? "No model in this report was asked this." : model.kind === "published" ? "Only the score was published, not the answers." : "No answers of this model: run lm_eval with --log_samples and without --limit.";
    return make("div", {}, box, make("p", { class: "note" }, said(model, cell, answer) === null ? `${missing} ` : "", size));
  }

  // The scores of all models on one line from 0 to 100; those at 0 without answers are folded.
  function scores(view) {
    const { data, model, cell, answer, also } = view, { "D zero": zero, "D mean": mean, "D perfect": best } = data.anchors;
    const averages = Math.min(100, Math.max(0, (100 * (zero - mean)) / (zero - best)));
    const settings = (one) => one.settings.split(", ").filter(Boolean);
    const common = data.models.length > 1 ? settings(data.models[0]).filter((word) => data.models.every((one) => settings(one).includes(word))) : [];
    const chip = (text) => make("span", { class: "chip" }, text);
    const row = (one) => {
      const file = index().models[one.model], reach = 1.96 * (one.error ?? 0), clip = (x) => Math.min(100, Math.max(0, x));
      const why = [...["old", "tuned", "part"].filter((key) => one[key]), one.kind].flatMap((key) => WHY[key] ?? []);
      const chips = [...settings(one).filter((word) => !common.includes(word)), ...why].map(chip);
      const name = one.q ? make("a", { href: address({ model: one.name }), title: one.name, class: "name" }, one.model) : make("span", { title: one.name, tabindex: "0", class: "name" }, one.model);
      const draw = make("input", { type: "checkbox", id: `draw-${data.models.indexOf(one)}`, "aria-label": `Draw ${one.name}` });
      draw.checked = one === model || also.includes(one);
      draw.disabled = one === model || !one.q || (!draw.checked && also.length >= FEW - 1);
      draw.addEventListener("change", () => go({ model: model.name, cell, answer, also: draw.checked ? [...also, one].map((x) => x.name) : also.filter((x) => x !== one).map((x) => x.name) }));
      const dot = make("span", { class: "mark", "aria-hidden": "true", style: one.score === null ? "" : `--at:${one.score};--low:${clip(one.score - reach)};--high:${clip(one.score + reach)};--mean:${averages};--dot:${draw.checked && one.q ? inPage(colour(one)) : GREY}` });
      return make("tr", { class: one === model ? "chosen" : one.kind === "run" && !one.old ? "" : "reference" },
        make("td", {}, make("span", { class: "named" }, one.q ? draw : "", name, ...(file ? [make("a", { href: file, class: "quiet", "aria-label": `The page of ${one.model}` }, "page")] : [])), ...chips.flatMap((one) => [one, " "])),
        make("td", {}, dot), ...cells([number(one.score, 1) + (one.error === null || one.score === null ? "" : ` ± ${number(one.error, 1)}`), percent(said(one, cell, answer))]));
    };
    const at = (place, text, more = "") => make("span", { style: `left:${place}%` }, text, make("u", {}, more));
    const ends = () => make("span", { class: "ends", title: "score from 0 to 100; the tick: knows averages only" }, at(0, "0", averages < 2 ? ", averages" : ""), ...(averages > 12 && averages < 76 ? [at(averages, "", "averages")] : []), at(100, "100"));
    const heads = () => ["Model", ends(), "score#", "this answer#"];
    const silent = data.models.filter((one) => one !== model && !one.q && one.score !== null && one.score + (one.error ?? 0) < 0.05);
    const made = [table("scores", heads(), data.models.filter((one) => !silent.includes(one)).map(row))];
    if (common.length) made.push(make("p", { class: "note" }, "All of these: ", ...common.flatMap((word) => [chip(word), " "])));
    if (model.worth !== null && model.score > 0) made.push(make("p", { id: "worth" }, worth(data, model)));
    const none = !data.models.some((one) => one.kind === "run" && !silent.includes(one));
    if (silent.length) made.push(make("details", none ? { open: "" } : {}, make("summary", {}, `0.0 ± 0.0: ${silent.length} more`), table("silent", heads(), silent.map(row))));
    return made;
  }

  // How many interviews of random people would be as far from the survey: no fewer than can be told,
  // and no more than it has itself.
  function worth(data, { model, worth: n }) {
    const own = data.n.reduce((sum, one) => sum + one, 0), least = 10 * data.given.length, say = (x) => x.toLocaleString("en");
    if (own && n >= own) return `${model} is about as close as the survey's own ${say(own)} interviews allow.`;
    const size = n < least ? `fewer than ${say(Math.min(least, own || least))} interviews, ten per condition` : `about ${say(n)} interviews`;
    return `${model} is worth ${size}: so many random people would be as far from the survey.`;
  }

  // Whether it is open: it stays so from model to model.
  let unfolded = false;

  function asking({ data, cell, model }) {
    const list = [["Score", `${number(model.score, 1)}${model.error === null || model.score === null ? "" : ` ± ${number(model.error, 1)}`}`], ["Distance", number(model.l1, 4)]];
    if (model.population !== null) list.push(["Against the population", `${number(model.population, 1)} ± ${number(model.population_error, 1)}`]);
    for (const [name, value] of Object.entries({ ...model.diagnostics })) list.push([WORDS[name] ?? plain(name), number(value, 3)]);
    for (const [name, value] of Object.entries(model.anchors ?? data.anchors ?? {})) list.push([WORDS[name], number(value, 4)]);
    const details = make("details", unfolded ? { open: "" } : {}, make("summary", {}, "How it was asked"),
      make("h3", {}, data.heading), make("pre", { id: "question" }, data.questions[cell] + data.tail),
      make("dl", { class: "facts", id: "facts" }, ...list.filter(([, value]) => value).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
    details.addEventListener("toggle", () => { unfolded = details.open; });
    return details;
  }

  let before = null;
  async function changed() {
    const { task } = state();
    await open();
    // A newly opened question is brought into sight and gets the keyboard; a change within it does not.
    if (task && task !== before) {
      scrollTo(0, 0);
      document.getElementById("open")?.focus({ preventScroll: true });
    }
    before = task;
  }

  document.addEventListener("DOMContentLoaded", changed);
  window.addEventListener("hashchange", changed);
})();
