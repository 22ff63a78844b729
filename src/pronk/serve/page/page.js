(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  let token = "", chosen = "", stream = null;

  // The token is in the fragment of the address, which browsers do not send, and is stored in this tab only.
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("token") || "";

  const state = (text, kind) => { $("state").textContent = text; $("state").className = kind || ""; };
  const whole = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
  function number(value) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(1);
    return String(Number(value.toPrecision(3)));
  }
  const bytes = (value) => value > 1e9 ? (value / 1e9).toFixed(1) + " GB" : (value / 1e6).toFixed(1) + " MB";

  function element(tag, attributes, ...children) {
    const found = document.createElement(tag);
    Object.assign(found, attributes || {});
    found.append(...children);
    return found;
  }

  let before = null;  // counters of the event before, for the rates
  function tiles(server) {
    const now = { time: performance.now() / 1000, learned: server.learned, requests: server.requests };
    const rate = (name) => before ? Math.max(now[name] - before[name], 0) / Math.max(now.time - before.time, 1e-3) : 0;
    const shown = [
      [whole(rate("learned")), "rows learned / s"],
      [whole(rate("requests")), "requests / s"],
      [whole(server.queue), "rows queued"],
      [number(server.p50), "ms, median"],
      [number(server.p99), "ms, p99"],
      [bytes(server.journal), "journal"],
    ];
    before = now;
    $("tiles").replaceChildren(...shown.map(([value, text]) =>
      element("div", { className: "tile" }, element("b", {}, value), element("span", {}, text))));
  }

  function table(models) {
    $("empty").hidden = models.length > 0;
    const shown = [...$("models").rows];
    if (shown.length !== models.length || shown.some((row, i) => row.dataset.name !== models[i].name)) {
      $("models").replaceChildren(...models.map((model) => {  // only if the models changed, to keep the focus
        const button = element("button", { type: "button", title: model.name }, model.name);
        button.addEventListener("click", () => choose(model.name));
        const row = element("tr", {}, element("th", { scope: "row" }, button));
        for (let i = 0; i < 8; i++) row.append(element("td"));
        row.dataset.name = model.name;
        return row;
      }));
    }
    models.forEach((model, i) => {
      const row = $("models").rows[i];
      const left = model.unpredicted ? ` (${whole(model.unpredicted)} not scored)` : "";
      const cells = [whole(model.rows) + left, model.metric, number(model.loss), number(model.baseline), number(model.repeat_last),
        whole(model.waiting), whole(model.alarms), model.version];
      cells.forEach((text, k) => { row.cells[k + 1].textContent = text; });
      row.className = model.name === chosen ? "chosen" : "";
    });
  }

  function detail(model) {
    $("detail").hidden = !model;
    if (!model) return;
    $("name").textContent = model.name;
    $("metric").textContent = `${model.metric[0].toUpperCase()}${model.metric.slice(1)} along the stream`;
    $("what").textContent = model.ready
      ? `${model.algorithm}, ${model.task}, ${whole(model.columns)} columns, ${whole(model.points)} points, version ${model.version}, `
        + `${whole(model.waiting)} predictions awaiting labels`
      : `not available: ${model.reason}`;
    $("curve").innerHTML = model.curve.svg;
    $("curve").dataset.rows = model.curve.rows;
    $("caption").textContent = model.curve.rows ? `${whole(model.curve.length)} rows per point` : "no row scored yet";
    $("notes").replaceChildren(...model.notes.map((text) => element("p", { className: "note" }, text)));
    const held = model.coverage !== null && model.coverage !== undefined;
    $("coverage-box").hidden = !held;
    if (held) {
      const bar = element("div", { className: "gauge" }, element("i"), element("b"));
      bar.firstChild.style.width = `${100 * model.coverage}%`;
      bar.lastChild.style.left = `${100 * model.wanted}%`;
      $("coverage").replaceChildren(
        element("p", { className: "big" }, `${(100 * model.coverage).toFixed(1)}%`), bar,
        element("p", { className: "dim" }, `of the labels were inside their interval (target: ${number(100 * model.wanted)}%)`));
    }
    const events = model.events.map((event) => element("li", {},
      element("b", {}, `${event.kind} at row ${whole(event.row)}`), `: ${event.text}`));
    $("events").replaceChildren(...(events.length ? events : [element("li", { className: "dim" }, "none so far")]));
    $("experts-box").hidden = !model.experts.length;
    $("experts").replaceChildren(...model.experts.flatMap(([name, weight]) => {
      const bar = element("div", { className: "bar" }, element("i"));
      bar.firstChild.style.width = `${100 * weight}%`;
      return [element("div", { className: "expert" }, element("span", {}, name), bar,
        element("span", { className: "number" }, `${(100 * weight).toFixed(1)}%`))];
    }));
  }

  function show(data) {
    $("login").hidden = true;
    $("main").hidden = false;
    $("version").textContent = `pronk ${data.server.version}`;
    tiles(data.server);
    if (!chosen && data.models.length) { choose(data.models[0].name); return; }
    table(data.models);
    detail(data.model);
  }

  function choose(name) {
    if (name === chosen) return;
    chosen = name;
    if (stream) stream.abort();
    follow();
  }

  async function follow() {
    const mine = stream = new AbortController();
    try {
      const query = chosen ? `?model=${encodeURIComponent(chosen)}` : "";
      const answer = await fetch(`v2/events${query}`, { headers: { Authorization: `Bearer ${token}` }, signal: mine.signal });
      if (answer.status === 401 || answer.status === 403) { ask("unknown token"); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      state("live", "live");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Error("closed");
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) if (event.startsWith("data: ")) show(JSON.parse(event.slice(6)));
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      state("connection lost, reconnecting", "lost");
      setTimeout(() => { if (stream === mine) follow(); }, 1500);
    }
  }

  function ask(reason) {
    $("login").hidden = false;
    $("main").hidden = true;
    state(reason, "lost");
    $("token").focus();
  }

  $("login").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    sessionStorage.setItem("token", token);
    follow();
  });
  if (token) follow(); else ask("a token is required");
})();
