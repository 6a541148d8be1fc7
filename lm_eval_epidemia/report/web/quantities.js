// The page of quantities: the panel of one. Which is open stands in the address, so that a link
// opens the same.
"use strict";

(() => {
  const { script, read, make, figure } = window.epidemia;
  const received = {};
  epidemia.receive = (name, data) => { received[name] = data; };

  const panel = () => document.getElementById("panel");

  function state() {
    const found = new URLSearchParams(location.hash.slice(1));
    return { set: found.get("set"), quantity: found.get("quantity") };
  }

  function go(changes) {
    location.hash = new URLSearchParams({ ...state(), ...changes }).toString();
  }

  async function open() {
    const { set, quantity } = state();
    const known = read("index");
    panel().hidden = !set;
    if (!set) return;
    if (!Object.hasOwn(known.sets, set)) {
      panel().replaceChildren(make("p", {}, `There is no set of quantities ${set} here.`));
      return;
    }
    try {
      await script(`data/${known.sets[set]}.js`);
    } catch (error) {
      panel().replaceChildren(make("p", {}, `${error.message}: is the site's folder complete?`));
      return;
    }
    if (state().set !== set || state().quantity !== quantity) return;
    const data = received[set];
    const place = data.quantities.findIndex((one) => one.name === quantity);
    if (place < 0) panel().replaceChildren(make("p", {}, `There is no quantity ${quantity} in ${set}.`));
    else show(data, place);
  }

  function show(data, place) {
    const one = data.quantities[place];
    const beside = (by) => data.quantities[(place + by + data.quantities.length) % data.quantities.length].name;
    const button = (text, id, act) => {
      const element = make("button", { type: "button", id }, text);
      element.addEventListener("click", act);
      return element;
    };
    const select = make("select", { id: "quantity" });
    data.quantities.forEach((each) => select.append(make("option", { value: each.name }, each.about)));
    select.value = one.name;
    select.addEventListener("change", () => go({ quantity: select.value }));
    const facts = make("dl", { class: "facts", id: "facts" });
    for (const [name, value] of Object.entries(one.facts)) facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
    panel().replaceChildren(
      make("h2", { id: "open", tabindex: "-1" }, one.about),
      make("p", { id: "wording" }, `${one.wording[0].toUpperCase()}${one.wording.slice(1)}.`),
      make("p", { class: "quiet" }, `${data.title} (${one.name} of ${data.name}); ${one.difficulty}; to be stated as a ${one.family} distribution${one.unit ? ` in ${one.unit}` : ""}. ${data.source}`),
      make("div", { class: "filters" }, make("label", {}, "Quantity", select),
        button("Previous", "previous", () => go({ quantity: beside(-1) })),
        button("Next", "next", () => go({ quantity: beside(1) })),
        button("Close", "close", () => { location.hash = ""; })),
      facts,
      make("figure", {}, make("div", { id: "stated", role: "img", "aria-label": "What was stated, and the truth" }),
        make("figcaption", {}, `One line per stated prior and per sample of real answers (25 of each size, ${data.scored} draws).`)),
      priors(one),
    );
    figure(document.getElementById("stated"), read("figure-stated"), one.rows);
  }

  function priors(one) {
    if (!one.table.length) return make("p", { class: "note" }, "No model in this report was asked about it.");
    const head = ["Model", "Stated", "Mean", "sd", "Error ratio", "Closer than N answers"];
    const body = make("tbody");
    for (const cells of one.table) {
      body.append(make("tr", {}, ...cells.map((text, i) => make("td", i > 1 ? { class: "number" } : {}, text))));
    }
    return make("div", { class: "wide", tabindex: "0" }, make("table", { id: "priors" },
      make("thead", {}, make("tr", {}, ...head.map((text, i) => make("th", i > 1 ? { class: "number", scope: "col" } : { scope: "col" }, text)))), body));
  }

  let before = null;
  async function changed() {
    const { set } = state();
    await open();
    // A newly opened panel is brought into sight and gets the keyboard; a change within it does not.
    if (set && set !== before) {
      panel().scrollIntoView({ block: "start" });
      document.getElementById("open")?.focus({ preventScroll: true });
    }
    before = set;
  }

  document.addEventListener("DOMContentLoaded", changed);
  window.addEventListener("hashchange", changed);
})();
