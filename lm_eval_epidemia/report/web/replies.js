// Replies of one model, all or only those of a task, or those that could not be read. What is chosen
// is in the address.
"use strict";

(() => {
  const { script, read, make } = window.epidemia;
  const received = {};
  epidemia.receive = (name, data) => { received[name] = data; };
  const by = (id) => document.getElementById(id);

  async function show() {
    const { replies: files, titles } = read("index"), chosen = new URLSearchParams(location.hash.slice(1));
    const model = Object.hasOwn(files, chosen.get("model") ?? "") ? chosen.get("model") : by("model").options[0].value;
    by("model").value = model;
    await script(`data/${files[model]}.js`);
    const data = received[files[model]], tasks = [...new Set(data.shown.map((one) => one.task))].sort();
    by("task").replaceChildren(make("option", { value: "" }, "all"), ...tasks.map((task) => make("option", { value: task }, titles[task])));
    by("task").value = tasks.includes(chosen.get("task")) ? chosen.get("task") : "";
    by("which").value = chosen.get("which") ?? "";
    const task = by("task").value, which = by("which").value;
    const shown = data.shown.filter((one) => (!task || one.task === task) && (!which || (which === "read") === Boolean(one.value)));
    by("shown").textContent = `${data.unread} of ${data.number} replies could not be read; ${shown.length} are shown here; the sample files of --log_samples have all`;
    by("replies").replaceChildren(...shown.map((one) => make("article", { class: "effect" },
      make("h2", { class: "reply" }, one.value ? `Read: ${one.value}` : "Not read"),
      make("p", { class: "quiet" }, make("a", { href: `task.html#${new URLSearchParams({ task: one.task, model })}` }, titles[one.task]), ` ${one.task}`),
      make("div", { class: "pair" },
        make("div", {}, make("h3", {}, "Prompt"), make("pre", {}, one.prompt)),
        make("div", {}, make("h3", {}, "Reply"), make("pre", {}, one.reply || "(nothing)"))))));
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const id of ["model", "task", "which"]) {
      by(id).addEventListener("change", () => {
        const chosen = { model: by("model").value, task: id === "model" ? "" : by("task").value, which: by("which").value };
        location.hash = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value)).toString();
      });
    }
    show();
  });
  window.addEventListener("hashchange", show);
})();
