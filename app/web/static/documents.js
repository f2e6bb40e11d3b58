// The list of documents: uploads with their progress, actions, and a list that refreshes itself.
"use strict";

(() => {
  const { byId, element, call, tell, toast, ask, bytes } = lectern;
  const list = byId("list"), uploads = byId("uploads"), drop = byId("drop"), picker = byId("files");
  const AT_ONCE = 2, SOON_MS = 1500, LATER_MS = 20000, SURE_MS = 1000;
  const waiting = [];
  let running = 0, timer;

  // -- the list -------------------------------------------------------------------------------

  function refresh() {
    const form = document.querySelector(".filters");
    const values = Object.fromEntries(new FormData(form));
    return htmx.ajax("GET", "/", { target: "#list", swap: "innerHTML", values });
  }

  function schedule() {
    clearTimeout(timer);
    const listing = list.querySelector(".listing");
    const isInWork = listing && listing.dataset.inWork === "true";
    timer = setTimeout(() => {
      if (document.hidden || list.contains(document.activeElement) && document.activeElement.matches("a")) return schedule();
      refresh().finally(schedule);
    }, isInWork ? SOON_MS : LATER_MS);
  }

  function stale(message, way) {
    const box = byId("stale");
    box.replaceChildren(message, ...(way ? [" ", way] : []));
    box.hidden = !message;
  }
  document.addEventListener("htmx:afterSwap", () => { stale(""); schedule(); });
  document.addEventListener("htmx:sendError", () => { stale("The list is not up to date: the server does not answer. Trying again …"); schedule(); });
  document.addEventListener("htmx:timeout", () => { stale("The list is not up to date: the server is slow. Trying again …"); schedule(); });
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status !== 401) stale(`The list is not up to date: the server answered with status ${status}.`);
    schedule();
  });

  list.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-action]");
    if (!button) return;
    const { action, id, name } = button.dataset;
    try {
      if (action === "delete") {
        const words = `Delete “${name}”? Its file, its cache and its conversations are removed for good.`;
        if (!await ask(words, { yes: "Delete" })) return;
        await call(`/documents/${id}`, { method: "DELETE" });
      } else {
        await call(`/documents/${id}/${action}`, { method: "POST" });
      }
      await refresh();
      list.focus();
    } catch (error) { tell(error); }
  });

  // -- uploads --------------------------------------------------------------------------------

  function add(files) {
    for (const file of files) waiting.push(row(file));
    begin();
  }

  function row(file) {
    const bar = element("progress", { max: 1, value: 0, "aria-label": `Upload of ${file.name}` });
    const words = element("p", { class: "note" }, `waiting · ${bytes(file.size)}`);
    const stop = element("button", { class: "quiet", type: "button" }, "Cancel");
    const item = element("li", { class: "upload" }, element("p", { class: "name" }, file.name), bar, words, stop);
    const upload = { file, bar, words, stop, item, request: null };
    stop.addEventListener("click", () => cancel(upload));
    uploads.append(item);
    return upload;
  }

  function begin() {
    while (running < AT_ONCE && waiting.length) send(waiting.shift());
  }

  function cancel(upload) {
    const index = waiting.indexOf(upload);
    if (index >= 0) waiting.splice(index, 1);
    if (upload.request) upload.request.abort();
    upload.item.remove();
  }

  function send(upload) {
    const most = Number(drop.dataset.maxBytes);
    if (upload.file.size > most) {
      return fail(upload, `The file has ${bytes(upload.file.size)}; this server takes ${bytes(most)} at most.`, false);
    }
    if (!upload.file.size) return fail(upload, "The file is empty.", false);
    running += 1;
    const request = upload.request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", upload.file);
    request.open("POST", "/documents");
    request.setRequestHeader("x-csrf-token", lectern.csrf);
    const began = performance.now();
    request.upload.addEventListener("progress", (event) => {
      if (!event.lengthComputable) return;
      upload.bar.value = event.loaded / event.total;
      const spent = performance.now() - began;
      const left = spent * (event.total / event.loaded - 1);
      upload.words.textContent = event.loaded < event.total
        ? `uploading · ${bytes(event.loaded)} of ${bytes(event.total)}${spent > SURE_MS ? ` · about ${lectern.duration(left)} left` : ""}`
        : "arrived · being checked";
    });
    const ended = () => { running -= 1; begin(); };
    request.addEventListener("load", () => {
      ended();
      let body = {};
      try { body = JSON.parse(request.responseText); } catch { /* no body of ours */ }
      if (request.status === 202) {
        upload.item.remove();
        const isOld = Date.now() / 1000 - body.created_at > 10 && body.status !== "queued";
        if (isOld) toast(`“${upload.file.name}” has the same content as a document that is here already:`, element("a", { href: `/room/${body.id}` }, body.filename));
        refresh();
        return;
      }
      if (request.status === 401) return fail(upload, "Your session has ended.", true, lectern.loginLink());
      const message = body.error ? body.error.message : `The server answered with status ${request.status}.`;
      fail(upload, message, request.status >= 429);
    });
    request.addEventListener("error", () => { ended(); fail(upload, lectern.GONE, true); });
    request.addEventListener("abort", ended);
    request.send(form);
  }

  function fail(upload, message, again, way) {
    upload.item.classList.add("failed");
    upload.bar.remove();
    upload.words.className = "reason";
    upload.words.replaceChildren(message, ...(way ? [" ", way] : []));
    upload.stop.textContent = "Dismiss";
    if (again) {
      const retry = element("button", { class: "quiet", type: "button" }, "Try again");
      retry.addEventListener("click", () => { upload.item.remove(); add([upload.file]); });
      upload.stop.before(retry, " ");
    }
  }

  if (drop) {
    const take = () => { add(picker.files); picker.value = ""; };
    picker.addEventListener("change", take);
    take(); // what was chosen before this script ran
    let depth = 0;
    const over = (on) => drop.classList.toggle("over", on);
    addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; over(true); });
    addEventListener("dragleave", () => { depth -= 1; if (depth <= 0) over(false); });
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      depth = 0;
      over(false);
      add(event.dataTransfer.files);
    });
    addEventListener("beforeunload", (event) => { if (running || waiting.length) event.preventDefault(); });
  }
  schedule();
})();
