(() => {
  "use strict";
  // Show the values of the point next to the pointer, from its position and the axes.
  const label = document.createElement("div");
  label.className = "value";
  const axis = (text) => {
    const [log, low, high] = text.split(",").map(Number);
    return (place) => { const v = low + place * (high - low); return log ? 10 ** v : v; };
  };
  const text = (v) => Math.abs(v) >= 1e6 || (v && Math.abs(v) < 1e-3) ? v.toExponential(3)
    : (+v.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 8 });
  for (const plot of document.querySelectorAll(".plot")) {
    const svg = plot.querySelector(".inside");
    const across = axis(svg.dataset.x), up = axis(svg.dataset.y), { percent, rows } = svg.dataset;
    const lines = [...svg.querySelectorAll("g")].map((group) => ({
      group, points: [...group.lastChild.getAttribute("d").matchAll(/([\d.-]+) ([\d.-]+)/g)].map((m) => [+m[1], +m[2]]),
    }));
    plot.addEventListener("pointermove", (event) => {
      const box = plot.firstChild.getBoundingClientRect();
      const x = event.clientX - box.left, y = event.clientY - box.top;
      let best = 30, nearest = null;
      for (const { group, points } of lines) {
        if (group.hasAttribute("hidden")) continue;
        for (const [a, b] of points) {
          const distance = Math.hypot(a / 1000 * box.width - x, b / 1000 * box.height - y);
          if (distance < best) { best = distance; nearest = [group, a, b]; }
        }
      }
      label.remove();
      if (!nearest) return;
      const [group, a, b] = nearest, v = up(1 - b / 1000);
      const value = percent ? text(100 * v) + "%" : text(v);
      label.textContent = `${group.dataset.shown}: ${value} (${rows ? `row ${Math.round(across(a / 1000)).toLocaleString("en")}` : text(across(a / 1000))})`;
      plot.append(label);
      const left = event.clientX - plot.getBoundingClientRect().left + 12;
      label.style.left = `${Math.max(0, Math.min(left, plot.clientWidth - label.offsetWidth))}px`;
      label.style.top = `${event.clientY - plot.getBoundingClientRect().top + 14}px`;
    });
    plot.addEventListener("pointerleave", () => label.remove());
  }

  // The comparison's page: which learners are drawn.
  const boxes = [...document.querySelectorAll(".legend input")];
  const update = () => boxes.forEach((box) => {
    for (const one of document.querySelectorAll(".plot [data-name]")) {
      if (one.dataset.name === box.value) one.toggleAttribute("hidden", !box.checked);
    }
  });
  boxes.forEach((box) => box.addEventListener("change", update));
  document.getElementById("all")?.addEventListener("click", () => {
    const wanted = boxes.some((box) => !box.checked);
    boxes.forEach((box) => { box.checked = wanted; });
    update();
  });
})();
