// A model's page: the questions in which it differs most from another model.
"use strict";

document.addEventListener("DOMContentLoaded", async () => {
  const { script, make } = window.epidemia, other = document.getElementById("other");
  if (!other) return;
  const files = {};
  epidemia.receive = (name, data) => { files[name] = data; };
  await script("data/scores.js");
  const { models, tasks, titles } = files.scores;

  function show() {
    const { mine, says } = other.selectedOptions[0].dataset;
    const [a, b] = [mine, other.value].map((name) => models.indexOf(name));
    const both = Object.entries(tasks).filter(([, of]) => of[a] && of[b]).map(([task, of]) => [task, of[a], of[b], of[a] - of[b]]);
    both.sort((one, two) => Math.abs(two[3]) - Math.abs(one[3]));
    const rows = both.slice(0, 8).map(([task, ...numbers]) => make("tr", {}, make("td", {}, make("a", { href: `task.html#${new URLSearchParams([["task", task], ["model", mine], ["also", other.value]])}` }, titles[task])),
      ...numbers.map((x, i) => make("td", { class: "number" }, (i === 2 && x > 0 ? "+" : "") + Number(x).toFixed(1)))));
    const heads = ["Largest differences", "this", "other", "difference"].map((text, i) => make("th", { scope: "col", class: i ? "number" : "" }, text));
    document.getElementById("against").replaceChildren(make("p", {}, `Points more: ${says}.`), make("div", { class: "wide", tabindex: "0" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))));
  }
  other.addEventListener("change", show);
  show();
});
