// The calibration page: one model at a time, whose numbers are in a file of its own.
"use strict";

(() => {
  const { script, read, figure } = window.epidemia;
  const received = {};
  epidemia.receive = (name, data) => { received[name] = data; };

  // Numbers are written short, see `data.calibration_data`: here they are rows of the figures again.
  function rows(model, { bins, density, curve }) {
    return [
      ...density.map(([q, p, share]) => ({ model, kind: "density", q: q / bins, q2: (q + 1) / bins, p: p / bins, p2: (p + 1) / bins, share })),
      ...curve.map(([q, p]) => ({ model, kind: "curve", q, p })),
    ];
  }

  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("chosen");
    if (!select) return;
    const files = read("files");
    const wanted = new URLSearchParams(location.hash.slice(1)).get("model");
    if (wanted !== null && Object.hasOwn(files, wanted)) select.value = wanted;
    const draw = async () => {
      const model = select.value, file = files[model];
      await script(`data/${file}.js`);
      if (select.value !== model) return;
      const letters = received[file].letters.map(([answers, position, times]) => ({ model, answers, position, times }));
      figure(document.getElementById("calibration"), read("figure-calibration"), rows(model, received[file]));
      figure(document.getElementById("order_bias"), read("figure-order_bias"), letters);
    };
    select.addEventListener("change", () => {
      history.replaceState(null, "", `#${new URLSearchParams({ model: select.value })}`);
      draw();
    });
    draw();
  });
})();
