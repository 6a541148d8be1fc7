// All pages: theme, sortable tables, figures drawn when they come into sight. The explorer's own
// part is in explorer.js. Texts from result files only ever become text nodes.
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

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line };
    return {
      background: "transparent", view: { stroke: line }, axis,
      legend: { labelColor: text, titleColor: text }, header: { labelColor: text, titleColor: text },
      title: { color: text }, text: { color: text },
    };
  }

  const drawn = new Map();

  async function figure(element, specification, rows) {
    drawn.set(element, [specification, rows]);
    await script("assets/vega.js");
    const spec = { ...structuredClone(specification), datasets: { rows } };
    await vegaEmbed(element, spec, {
      renderer: "svg", config: colours(),
      actions: { export: true, source: false, compiled: false, editor: false },
    });
  }

  function figuresInSight() {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        seen.unobserve(entry.target);
        const name = entry.target.dataset.figure;
        figure(entry.target, read(`figure-${name}`), read(`rows-${name}`));
      }
    }, { rootMargin: "200px" });
    document.querySelectorAll("[data-figure]").forEach((element) => seen.observe(element));
  }

  // Theme: the system's unless the reader chose.

  function theme() {
    let chosen = null;
    try { chosen = localStorage.getItem("epidemia-theme"); } catch { /* no storage from this page */ }
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const set = (value) => {
      document.documentElement.dataset.theme = value;
      document.documentElement.classList.toggle("dark", value === "dark");
      for (const [element, [specification, rows]] of drawn) figure(element, specification, rows);
    };
    set(chosen ?? (dark.matches ? "dark" : "light"));
    dark.addEventListener("change", () => { if (!chosen) set(dark.matches ? "dark" : "light"); });
    document.getElementById("theme").addEventListener("click", () => {
      chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("epidemia-theme", chosen); } catch { /* it lasts for this page */ }
      set(chosen);
    });
  }

  // Tables: DataTables, kept as a module's text, since a page from the file system cannot import one.

  let library = null;
  async function dataTables() {
    await script("assets/datatables.js");
    library ??= import(URL.createObjectURL(new Blob([window.dataTablesModule], { type: "text/javascript" })));
    return (await library).default;
  }

  const tables = {};
  async function sortable() {
    const wanted = [...document.querySelectorAll("table[data-sortable]")];
    if (!wanted.length) return;
    const DataTable = await dataTables();
    for (const element of wanted) {
      const many = element.tBodies[0].rows.length > 8;
      tables[element.id] = new DataTable(element, {
        paging: false, info: false, searching: true, order: [], autoWidth: false,
        layout: { topStart: many || element.dataset.sortable === "search" ? "search" : null, topEnd: null },
        language: { search: "Filter:" },
      });
    }
    document.documentElement.dataset.ready = "yes";
    document.dispatchEvent(new Event("tables-ready"));
  }

  document.addEventListener("DOMContentLoaded", () => {
    theme();
    figuresInSight();
    sortable();
  });

  return { script, read, make, percent, figure, tables };
})();
