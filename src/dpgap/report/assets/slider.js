"use strict";
for (const section of document.querySelectorAll("[data-slider]")) {
  const data = JSON.parse(section.dataset.slider);
  const input = section.querySelector("input[type=range]");
  const marker = section.querySelector(".marker_marks path");
  const cut = section.querySelector(".cut_marks line");
  const update = () => {
    const place = Number(input.value);
    input.setAttribute("aria-valuetext", "score " + data.cells.at[place]);
    for (const cell of section.querySelectorAll("[data-show]")) {
      cell.textContent = data.cells[cell.dataset.show][place];
    }
    marker.setAttribute("transform", `translate(${data.right[place]},${data.down[place]})`);
    cut.setAttribute("transform", `translate(${data.cut[place]},0)`);
  };
  input.addEventListener("input", update);
  update();
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
