"use strict";
for (const section of document.querySelectorAll("[data-slider]")) {
  const data = JSON.parse(section.dataset.slider);
  const input = section.querySelector("input[type=range]");
  const marker = section.querySelector(".marker_marks path");
  const cut = section.querySelector(".cut_marks line");
  const [low, high] = data.scores;
  const percent = (rate) => (100 * rate).toFixed(2) + " %";
  const update = () => {
    const place = Number(input.value);
    const at = data.at[place];
    const score = at === null ? "infinite" : at.toPrecision(5);
    input.setAttribute("aria-valuetext", "score " + score);
    for (const cell of section.querySelectorAll("[data-show]")) {
      const name = cell.dataset.show;
      if (name === "at") {
        cell.textContent = score;
      } else {
        const value = data.columns[name][place];
        cell.textContent = name.endsWith("epsilon") ? value.toFixed(2) : percent(value);
      }
    }
    const right = data.columns.fpr[place] * data.wide;
    const down = (1 - data.columns.fnr[place]) * data.high;
    marker.setAttribute("transform", `translate(${right},${down})`);
    const share = at === null ? 1 : Math.min(1, Math.max(0, (at - low) / (high - low)));
    cut.setAttribute("transform", `translate(${share * data.wide},0)`);
  };
  input.addEventListener("input", update);
  update();
}
