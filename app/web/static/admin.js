// Says on the page when its figures have stopped refreshing, and draws the charts.
"use strict";

(() => {
  const stale = (on) => document.body.toggleAttribute("data-stale", on);
  for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.addEventListener(name, () => stale(true));
  }
  document.addEventListener("htmx:afterSwap", () => stale(false));

  // A part in which somebody is about to do something stays as it is.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.querySelector("details[open], :focus-visible")) event.preventDefault();
  });

  // One menu at a time; Escape closes it.
  document.addEventListener("toggle", (event) => {
    if (!event.target.matches(".act") || !event.target.open) return;
    for (const other of document.querySelectorAll(".act[open]")) if (other !== event.target) other.open = false;
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll(".act[open]")) { open.open = false; open.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll(".act[open]")) if (!open.contains(event.target)) open.open = false;
  });

  const HISTORY_MS = 60000, HEIGHT = 180;
  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const axis = (more = {}) => ({
    stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
    font: "11px system-ui, sans-serif", ...more,
  });
  const line = (label, name, more = {}) => ({ label, stroke: colour(name), width: 1.75, points: { show: false }, spanGaps: false, ...more });
  const drawn = [];

  function draw(box, data, series, options = {}) {
    box.replaceChildren();
    const chart = new uPlot({
      width: box.clientWidth, height: HEIGHT, legend: { show: series.length > 1, live: false }, cursor: { show: true, y: false },
      series: [{}, ...series], axes: [axis(options.x || { values: (_, ticks) => ticks.map(clock) }), axis({ size: 52, ...options.y })],
      scales: { x: { time: options.time !== false }, y: { range: (_, low, high) => options.free ? [low - 0.5, high + 0.5] : [0, Math.max(1, high * 1.08)] } },
    }, data, box);
    drawn.push({ box, chart });
  }
  new ResizeObserver(() => {
    for (const { box, chart } of drawn) if (box.clientWidth !== chart.width) chart.setSize({ width: box.clientWidth, height: HEIGHT });
  }).observe(document.body);

  const clock = (second) => new Date(1000 * second).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  const count = (number) => Math.round(number).toLocaleString("en-US");
  const ms = (number) => number < 1000 ? `${number < 10 ? number.toFixed(1) : Math.round(number)} ms` : `${(number / 1000).toFixed(1)} s`;

  function drawHistory(charts, history) {
    drawn.length = 0;
    const words = (name, text) => { charts.querySelector(`[data-words="${name}"]`).textContent = text; };
    const box = (name) => charts.querySelector(`[data-series="${name}"]`);
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    draw(box("answers"), [history.times, history.answers, history.hits], [line("all", "--accent", { fill: colour("--wash") }), line("hits", "--busy")]);
    words("answers", `${count(sum(history.answers))} answers, ${count(sum(history.hits))} found their document in memory`);
    draw(box("tokens"), [history.times, history.tokens], [line("tokens", "--accent", { fill: colour("--wash") })]);
    words("tokens", `${count(sum(history.tokens))} tokens`);
    for (const name of ["first_token", "per_token", "waiting"]) {
      const { p50, p95 } = history[name];
      draw(box(name), [history.times, p50, p95], [line("half", "--accent", { points: { show: true, size: 4 } }), line("95 %", "--bad", { points: { show: true, size: 4 } })]);
      const last = p50.findLastIndex((value) => value !== null);
      words(name, last < 0 ? "No answers in the last 24 hours" : `Latest: half within ${ms(p50[last])}, 95 % within ${ms(p95[last])}`);
    }
  }

  const charts = document.querySelector("[data-history]");
  let latest = null;
  async function refresh() {
    try {
      const response = await fetch(charts.dataset.history, { headers: { "hx-request": "true" } });
      if (!response.ok) throw new Error(String(response.status));
      latest = await response.json();
      drawHistory(charts, latest);
    } catch {
      if (!latest) for (const words of charts.querySelectorAll(".chart-words")) words.textContent = "The history could not be loaded; trying again in a minute.";
    }
  }
  function drawCurves() {
    for (const box of document.querySelectorAll("[data-curve]")) {
      const [shares, thresholds] = JSON.parse(box.dataset.curve);
      draw(box, [shares, thresholds], [line("threshold", "--accent", { points: { show: true, size: 5 } })], { time: false, free: true, x: { values: (_, ticks) => ticks.map((tick) => `${tick} %`) } });
    }
  }
  if (charts) { refresh(); setInterval(() => { if (!document.hidden) refresh(); }, HISTORY_MS); }
  drawCurves();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (charts && latest) drawHistory(charts, latest);
    drawCurves();
  });
})();
