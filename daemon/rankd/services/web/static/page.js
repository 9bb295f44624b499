// The page's own script: local times, the state of the live stream, charts, keys. It works without it, but not live.
"use strict";
(() => {
  const link = () => document.getElementById("link");
  function say(state, words) {
    const place = link();
    if (!place || (place.dataset.state === state)) return;
    place.dataset.state = state;
    place.textContent = words;
  }
  function localTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      time.title = time.textContent;
      const isToday = at.toDateString() === new Date().toDateString();
      time.textContent = isToday ? at.toLocaleTimeString() : at.toLocaleString();
      time.dataset.local = "";
    }
  }
  let drawn = [];
  function charts(root) {
    // a chart whose place was replaced would stay in memory by its listeners
    drawn = drawn.filter((one) => one.root.isConnected || one.destroy());
    for (const place of root.querySelectorAll("[data-chart]")) {
      if (place.firstElementChild || typeof uPlot === "undefined") continue;
      const given = JSON.parse(place.dataset.chart);
      const ink = getComputedStyle(document.body);
      const axis = { stroke: ink.color, grid: { stroke: ink.getPropertyValue("--line") } };
      const colour = (n) => ink.getPropertyValue(`--f${n % 8}`).trim();
      drawn.push(new uPlot({
        width: Math.min(place.clientWidth || 600, 900), height: 200,
        hooks: { ready: [(chart) => chart.setLegend({ idx: given.values[0].length - 1 })] },  // the newest values, until one points
        scales: { x: { time: true }, y: given.is_down ? { dir: -1, range: (_, low, high) => [Math.max(1, low - 1), high + 1] } : {} },
        axes: [{ ...axis, space: 110 }, given.is_down ? { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] } : axis],
        series: [{}, ...given.names.map((label, n) => ({ label, stroke: colour(n), width: 2, points: { show: given.is_down } }))],
      }, given.values, place));
    }
  }
  function ownRows(root) {
    const user = document.body.dataset.user;
    if (user) for (const row of root.querySelectorAll("tr[data-user]")) row.classList.toggle("own", row.dataset.user === user);
  }
  function sliders(root) {
    for (const field of root.querySelectorAll("input[data-low]")) {
      const range = document.createElement("input");
      Object.assign(range, { type: "range", min: field.dataset.low, max: field.dataset.high, step: field.dataset.step });
      range.setAttribute("aria-label", `${field.closest("label").firstElementChild.textContent}, slider`);
      const mark = () => field.classList.toggle("changed", Number(field.value) !== Number(field.dataset.now));
      range.value = field.value;
      range.addEventListener("input", () => { field.value = range.value; mark(); });
      field.addEventListener("input", () => { range.value = field.value; mark(); });
      field.after(range);
      mark();
    }
  }
  let isAtEnd = true, seenAt = 0;
  function follow(target) {
    const text = document.getElementById("log-text");
    if (target.id === "log" && text) text.scrollTop = isAtEnd ? text.scrollHeight : seenAt;
  }
  const refresh = (root) => { localTimes(root); ownRows(root); charts(root); };
  document.addEventListener("DOMContentLoaded", () => { refresh(document); sliders(document); });
  window.addEventListener("pageshow", () => { for (const button of document.querySelectorAll("form[data-wait] button")) button.disabled = false; });
  document.addEventListener("htmx:afterSwap", (event) => {
    refresh(event.target.isConnected ? event.target : document);
    follow(event.target);
  });
  document.addEventListener("htmx:sseOpen", (event) => {
    say("on", "live");
    event.detail.source.addEventListener("reload", () => location.reload());
  });
  document.addEventListener("htmx:sseError", () => say("lost", "connection lost, trying again"));
  document.addEventListener("htmx:sseMessage", () => say("on", "live"));
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    const chosen = window.getSelection(), text = document.getElementById("log-text");
    if (text) { seenAt = text.scrollTop; isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4; }
    // what somebody is selecting stays; the next update brings it up to date
    if (chosen && !chosen.isCollapsed && event.target.contains(chosen.anchorNode)) event.preventDefault();
  });
  document.addEventListener("submit", (event) => {
    const words = event.target.dataset.confirm;
    if (words && !window.confirm(words)) event.preventDefault();
    const wait = event.target.dataset.wait, button = event.target.querySelector("button");
    if (wait && button) { button.disabled = true; button.textContent = wait; }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input,select,textarea")) return;
    if (event.key === "/") { const field = document.getElementById("search"); if (field) { event.preventDefault(); field.focus(); } }
    if (event.key === "Escape") { const panel = document.getElementById("explain"); if (panel) panel.replaceChildren(); }
  });
})();
