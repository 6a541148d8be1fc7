// All pages: theme, sortable tables, figures. The explorer's own part is in explorer.js. Texts from result files only ever become text nodes.
"use strict";

window.epidemia = (() => {
  const loading = {};

  // Classic scripts work from file:// where fetch and modules do not.
  function script(path) {
    loading[path] ??= new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = path;
      element.onload = resolve;
      element.onerror = () => reject(new Error(`${path} could not be read`));
      document.head.append(element);
    });
    return loading[path];
  }

  function read(id) {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  }

  // An element with text and children: make("td", {class: "number"}, "54.8").
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const percent = (value) => (value === null || value === undefined ? "" : `${(100 * value).toFixed(1)} %`);

  // Figures.

  // Text and axes take the colour of the page around them, in light and in dark.
  function colours() {
    const line = "#88888866", axis = { labelFontSize: 12, titleFontSize: 12, labelColor: INK, titleColor: INK, gridColor: line, domainColor: line, tickColor: line };
    return {
      background: "transparent", view: { stroke: line }, axis, legend: { labelColor: INK, titleColor: INK },
      header: { labelColor: INK, titleColor: INK }, title: { color: INK }, text: { color: INK },
    };
  }

  const INK = "#010203";

  // A chart is as wide as there is room for, unless it has facets, a row per answer or the same scale
  // on both axes, which is square; its height is kept from the start.
  async function figure(element, specification, rows, says = "", more = {}) {
    await script("assets/vega.js");
    const spec = { ...structuredClone(specification), datasets: { rows, ...more } };
    if (!spec.facet && !spec.height?.step && spec.width !== spec.height) Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    const { view } = await vegaEmbed(element, spec, { renderer: "svg", config: colours(), actions: false });
    const svg = element.querySelector("svg.marks");
    if (!svg) return view;
    for (const ink of ["fill", "stroke"]) svg.querySelectorAll(`[${ink}="${INK}"]`).forEach((one) => one.setAttribute(ink, "currentColor"));
    // The picture as a whole says in words what it shows; its marks say nothing of themselves.
    for (const one of svg.querySelectorAll("[role], [aria-label], [aria-roledescription], [aria-hidden]")) {
      for (const name of ["role", "aria-label", "aria-roledescription", "aria-hidden"]) one.removeAttribute(name);
    }
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", says || element.getAttribute("aria-label") || "");
    element.removeAttribute("role");
    element.removeAttribute("aria-label");
    return view;
  }

  // Theme: the system's unless the reader chose. It is set before the page is drawn.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("epidemia-theme"); } catch { /* no storage from this page */ }
  const set = (value) => {
    document.documentElement.dataset.theme = value;
    document.documentElement.classList.toggle("dark", value === "dark");
  };
  const system = () => (dark.matches ? "dark" : "light");
  set(chosen ?? system());
  dark.addEventListener("change", () => { if (!chosen) set(system()); });

  function buttons() {
    document.getElementById("theme").addEventListener("click", () => {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("epidemia-theme", chosen); } catch { /* it lasts for this page */ }
      set(chosen);
    });
    const menu = document.getElementById("menu");
    menu.addEventListener("click", () => menu.setAttribute("aria-expanded", menu.getAttribute("aria-expanded") !== "true"));
  }

  // Tables: DataTables, kept as a module's text, since a page from the file system cannot import one.

  let library = null;
  async function dataTables() {
    await script("assets/datatables.js");
    library ??= import(URL.createObjectURL(new Blob([window.dataTablesModule], { type: "text/javascript" })));
    return (await library).default;
  }

  // The number that a cell begins with, which it is sorted by; null of a blank.
  const UNITS = { K: 1e3, M: 1e6, B: 1e9, T: 1e12 };
  function number(cell) {
    const read = /^\s*([+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(.?)/.exec(cell.replace(/<[^>]*>/g, ""));
    return read && Number(read[1].replaceAll(",", "")) * (UNITS[read[2]] ?? 1);
  }
  const blankLast = (a, b, way) => (a === null) - (b === null) || way * (a - b);

  const tables = {};
  async function sortable() {
    const wanted = [...document.querySelectorAll("table[data-sortable]")];
    if (!wanted.length) return;
    const DataTable = await dataTables();
    const order = DataTable.ext.type.order;
    order["blank-last-asc"] = (a, b) => blankLast(number(a), number(b), 1);
    order["blank-last-desc"] = (a, b) => blankLast(number(a), number(b), -1);
    for (const element of wanted) {
      const many = element.tBodies[0].rows.length > 8;
      tables[element.id] = new DataTable(element, {
        paging: false, info: false, searching: true, order: [], autoWidth: false,
        columnDefs: [{ targets: "number", type: "blank-last", orderSequence: ["desc", "asc"] }],
        layout: { topStart: (many && element.dataset.sortable !== "plain") || element.dataset.sortable === "search" ? "search" : null, topEnd: null },
        language: { search: "Filter:" },
      });
    }
    // The keyboard scrolls what is wider than its place.
    document.querySelectorAll(".dt-layout-full").forEach((box) => { if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; });
    document.documentElement.dataset.ready = "yes";
    document.dispatchEvent(new Event("tables-ready"));
  }

  // The start page: rows on demand, and one more model in its pictures and first in its topics.
  function start() {
    document.querySelectorAll("[data-all]").forEach((button) => button.addEventListener("click", () => {
      button.parentElement.classList.remove("few");
      button.remove();
    }));
    const chosen = document.getElementById("chosen");
    chosen?.addEventListener("change", () => {
      const option = chosen.options[chosen.selectedIndex || 1], { label, colour } = option.dataset;
      const run = Number(option.value), column = read("compared").indexOf(run) + 1;
      document.body.style.setProperty("--chosen", colour);
      document.querySelectorAll(".board tr").forEach((row) => row.classList.toggle("chosen", chosen.value !== "" && row.dataset.run === chosen.value));
      document.querySelectorAll(".tile").forEach((tile, n) => {
        const line = read("lines")[n][run], place = read("tiles")[n].indexOf(run);
        for (const of of [".every_marks path", ".worst_marks path"]) tile.querySelectorAll(of).forEach((path, at) => path.classList.toggle("chosen", at === place));
        const [where, who] = tile.querySelectorAll("p > *");
        if (line) [where.textContent, who.textContent] = line;
        who.classList.toggle("chosen", place > 0);
        const link = new URLSearchParams(tile.hash.slice(1));
        link.set("model", label);
        link.delete("cell");
        tile.hash = link;
      });
      if (!column || !tables.topics) return;
      tables.topics.order([column, "desc"]).draw();
      document.querySelectorAll("#topics :is(th, td)").forEach((cell) => cell.classList.toggle("chosen", cell.cellIndex === column));
      document.getElementById("least").textContent = option.text;
    });
    // Browsers keep what was chosen when a reader comes back.
    addEventListener("pageshow", () => { if (chosen?.value) chosen.dispatchEvent(new Event("change")); });
  }

  const PICKED = ["#0072B2", "#D55E00", "#009E73", "#B8639A"];

  // Marks of many models are grey, but for up to four that are chosen.
  function pick() {
    document.querySelectorAll(".pick").forEach((box) => box.addEventListener("change", () => {
      const every = [...box.querySelectorAll("input")], chosen = every.filter((one) => one.checked);
      const taken = new Map();
      // Its own colour, or one that no other chosen model has.
      chosen.forEach((one) => taken.set(one.value, [one.dataset.colour, ...PICKED].find((colour) => ![...taken.values()].includes(colour))));
      every.forEach((one) => {
        one.disabled = !one.checked && chosen.length > 3;
        one.parentElement.style.color = taken.get(one.value) ?? "";
      });
      box.parentElement.querySelectorAll("svg :has(> title)").forEach((mark) => {
        const colour = taken.get(mark.textContent) ?? "";
        for (const ink of ["fill", "stroke"]) if (mark.getAttribute(ink) === "#808080") mark.style[ink] = colour;
        if (colour) mark.parentElement.append(mark);
      });
    }));
  }

  // A topic of the start page leads to its questions among all.
  document.addEventListener("tables-ready", () => {
    const topic = new URLSearchParams(location.hash.slice(1)).get("topic"), table = tables.tasks;
    if (!topic || !table) return;
    table.search.fixed("topic", (_text, _data, n) => table.row(n).node().dataset.task.includes(`_${topic}_by_`)).draw();
    const every = make("button", { type: "button" }, `Not only ${topic.replaceAll("_", " ")}`);
    every.addEventListener("click", () => { table.search.fixed("topic", null).draw(); every.remove(); });
    document.querySelector(".filters").append(every);
  });

  document.addEventListener("DOMContentLoaded", () => {
    buttons();
    start();
    pick();
    sortable();
  });

  return { script, read, make, percent, number, figure, tables, INK };
})();
