// The calibration page: one model at a time.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const { read, figure } = window.epidemia;
  const select = document.getElementById("chosen");
  if (!select) return;
  const calibration = read("calibration-rows");
  const bias = read("order-rows");
  const wanted = new URLSearchParams(location.hash.slice(1)).get("model");
  if (wanted !== null && Object.hasOwn(calibration, wanted)) select.value = wanted;
  const draw = () => {
    figure(document.getElementById("calibration"), read("figure-calibration"), calibration[select.value]);
    figure(document.getElementById("order_bias"), read("figure-order_bias"), bias.filter((row) => row.model === select.value));
  };
  select.addEventListener("change", () => {
    history.replaceState(null, "", `#${new URLSearchParams({ model: select.value })}`);
    draw();
  });
  draw();
});
