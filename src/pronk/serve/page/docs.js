(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  $("token").value = sessionStorage.getItem("token") || "";
  $("token").addEventListener("input", () => sessionStorage.setItem("token", $("token").value.trim()));
  $("settings").addEventListener("submit", (event) => event.preventDefault());

  function described(form) {
    const path = form.dataset.path.replace("{model}", encodeURIComponent($("model").value.trim()));
    const area = form.querySelector("textarea");
    return { method: form.dataset.method, path: path.slice(1), body: area ? area.value.trim() : "" };
  }

  function curl(form) {
    const { method, path, body } = described(form);
    const quoted = body.replaceAll("'", "'\\''");
    const address = new URL(path, location.href).href;
    return `curl -s -X ${method} '${address}' -H "Authorization: Bearer $TOKEN"${body ? ` -d '${quoted}'` : ""}`;
  }

  function pretty(text) {
    try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
  }

  async function send(form) {
    const { method, path, body } = described(form), answer = form.querySelector(".answer");
    answer.hidden = false;
    answer.textContent = "waiting";
    const began = performance.now();
    try {
      const reply = await fetch(path, {
        method, body: body || undefined, headers: { Authorization: `Bearer ${$("token").value.trim()}` },
      });
      const text = await reply.text();
      answer.textContent = `${reply.status} ${reply.statusText}, ${Math.round(performance.now() - began)} ms\n${pretty(text)}`;
    } catch (error) {
      answer.textContent = `no answer: ${error.message}`;
    }
  }

  const forms = [...document.querySelectorAll("form.try")];
  const refresh = () => forms.forEach((form) => { form.querySelector(".curl").textContent = curl(form); });
  for (const form of forms) {
    form.addEventListener("submit", (event) => { event.preventDefault(); send(form); });
    form.addEventListener("input", refresh);
  }
  $("model").addEventListener("input", refresh);
  refresh();
})();
