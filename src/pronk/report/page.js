(() => {
  "use strict";
  const { charts, labels, baselines } = JSON.parse(document.getElementById("data").textContent);
  const boxes = [...document.querySelectorAll(".legend input")];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let views = [];

  const colours = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
  const shown = () => boxes.filter((box) => box.checked).map((box) => box.value);

  function config() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const palette = labels.length
      ? labels.map((label, i) => colour(baselines.includes(label) ? "--grey" : `--c${i % 8}`))
      : colours.map(colour);
    return {
      background: "transparent",
      font: getComputedStyle(document.body).fontFamily,
      range: { category: palette, heatmap: [colour("--tint"), colour("--c0")] },
      rule: { color: colour("--c7") },
      text: { color: colour("--text") },
      point: { color: palette[0] },
      view: { stroke: "transparent" },
      axis: {
        labelColor: colour("--dim"), titleColor: colour("--dim"), titleFontWeight: "normal",
        labelFontSize: 12, titleFontSize: 12, gridColor: colour("--grid"),
        domainColor: colour("--line"), tickColor: colour("--line"),
      },
      legend: { labelColor: colour("--text"), labelFontSize: 12, symbolStrokeColor: colour("--dim") },
    };
  }

  async function draw() {
    views.forEach((view) => view.finalize());
    const options = {
      config: config(), renderer: "svg", tooltip: { theme: dark.matches ? "dark" : "light" },
      actions: { export: true, source: false, compiled: false, editor: false },
    };
    views = await Promise.all(
      Object.entries(charts).map(async ([name, spec]) => {
        const { view } = await vegaEmbed(document.getElementById(`chart-${name}`), spec, options);
        // The report of one run has no learners to choose.
        return boxes.length ? view.signal("shown", shown()).runAsync() : view;
      }),
    );
    document.body.dataset.drawn = "yes";
  }

  const update = () => views.forEach((view) => view.signal("shown", shown()).runAsync());
  boxes.forEach((box) => box.addEventListener("change", update));
  document.getElementById("all")?.addEventListener("click", () => {
    const wanted = boxes.some((box) => !box.checked);
    boxes.forEach((box) => { box.checked = wanted; });
    update();
  });
  dark.addEventListener("change", draw);
  draw();
})();
