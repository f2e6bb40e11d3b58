// What the pages of the reading room share: calls of the API, messages, questions, formats.
"use strict";

const lectern = (() => {
  const meta = document.querySelector('meta[name="csrf"]');
  const csrf = meta ? meta.content : "";
  const byId = (id) => document.getElementById(id);

  class ApiError extends Error {
    constructor(status, code, message, retryAfterS) {
      super(message);
      Object.assign(this, { status, code, retryAfterS });
    }
  }

  const GONE = "The server does not answer. It may be restarting; try again in a moment.";

  async function failure(response) {
    let error = {};
    try { error = (await response.json()).error || {}; } catch { /* no error body */ }
    const retryAfterS = Number(response.headers.get("retry-after")) || null;
    const message = response.status === 401
      ? "Your session has ended, or its key was revoked."
      : error.message || `The server answered with status ${response.status}.`;
    return new ApiError(response.status, error.code || "", message, retryAfterS);
  }

  // Calls the API with the cookie of this session. Throws an ApiError that says what went wrong.
  async function call(path, { method = "GET", json, signal, headers = {} } = {}) {
    const sent = { "x-csrf-token": csrf, ...headers };
    if (json !== undefined) sent["content-type"] = "application/json";
    let response;
    try {
      const body = json === undefined ? undefined : JSON.stringify(json);
      response = await fetch(path, { method, headers: sent, body, signal, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, "no_connection", GONE, null);
    }
    if (!response.ok) throw await failure(response);
    return response;
  }

  // Shows a message for a while; one with a way on stays until it is replaced.
  let hiding;
  function toast(message, way) {
    const box = byId("toast");
    if (!box) return;
    clearTimeout(hiding);
    box.replaceChildren(message, ...(way ? [" ", way] : []));
    box.hidden = false;
    if (!way) hiding = setTimeout(() => { box.hidden = true; }, 6000);
  }

  function loginLink() {
    const link = document.createElement("a");
    const here = location.pathname === "/" ? "" : `?next=${encodeURIComponent(location.pathname)}`;
    link.href = `/login${here}`;
    link.textContent = "Log in again";
    return link;
  }

  function tell(error) {
    if (error.name === "AbortError") return;
    toast(error.message, error.status === 401 ? loginLink() : null);
  }

  // Asks before something is done; resolves to a text, to true, or to null if the answer is no.
  function ask(words, { yes = "Yes", text = null } = {}) {
    const dialog = byId("dialog"), field = byId("dialog-text");
    byId("dialog-words").textContent = words;
    byId("dialog-yes").textContent = yes;
    field.hidden = text === null;
    field.value = text || "";
    dialog.returnValue = "no";
    dialog.showModal();
    if (text !== null) field.select();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        const agreed = dialog.returnValue === "yes";
        resolve(agreed ? (text === null ? true : field.value.trim()) : null);
      }, { once: true });
    });
  }

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick") made.addEventListener("click", value);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== null && value !== false && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const count = (number) => Math.round(number).toLocaleString("en-US");
  function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
    return `${unit ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
  }
  function duration(ms) {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
    const minutes = Math.floor(ms / 60000), seconds = Math.round((ms % 60000) / 1000);
    return minutes < 60 ? `${minutes} min ${seconds} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  function share(number) {
    const percent = 100 * number;
    return `${percent >= 10 || percent === 0 ? Math.round(percent) : percent.toFixed(1)} %`;
  }

  // Reads server-sent events from a response; calls `on(name, data)` for each.
  async function events(response, on) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      let end;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        const lines = rest.slice(0, end).split("\n");
        rest = rest.slice(end + 2);
        const field = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
        if (field("event")) on(field("event"), JSON.parse(field("data")));
      }
    }
  }

  async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = element("textarea", { class: "visually-hidden" });  // pages without TLS
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  function download(name, text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  return {
    csrf, byId, call, toast, tell, ask, element, count, bytes, duration, share, events, copy,
    download, loginLink, ApiError, failure, GONE,
  };
})();
