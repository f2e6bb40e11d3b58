// A document beside the conversation about it: its text, marks, attention, questions, history.
"use strict";

(() => {
  const { byId, element, call, tell, toast, ask, count, bytes, duration, share } = lectern;
  const page = document.body, id = page.dataset.id;
  const paper = byId("paper"), strip = byId("strip"), turnList = byId("turns"), field = byId("question");
  const numTokens = () => Number(page.dataset.tokens);
  const numChars = Number(page.dataset.chars);
  const points = (text) => { let number = 0; for (const _ of text) number += 1; return number; };

  // -- the text, part by part -------------------------------------------------------------------

  const PARTS_AT_ONCE = 12, MOST_PARTS_AHEAD = 600;
  const layers = {};  // the document as pictures of its pages, and as text
  for (const name of ["sheets", "text"]) {
    const box = byId(name);
    if (box) layers[name] = { box, parts: [...box.querySelectorAll(".part")] };
  }
  let layer = layers.sheets ? "sheets" : "text";
  let parts = layers[layer] ? layers[layer].parts : [];
  const textParts = layers.text ? layers.text.parts : [];
  const loaded = new Set(textParts.length ? [0] : []);  // of the text's parts
  const loading = new Map();

  function estimateHeights() {
    const first = textParts[0];
    if (!first || layer !== "text") return;
    const pixels = first.offsetHeight / Math.max(1, first.dataset.end - first.dataset.start);
    for (const part of textParts) {
      const height = Math.round(pixels * (part.dataset.end - part.dataset.start));
      part.style.containIntrinsicSize = `auto ${Math.max(40, height)}px`;
      if (!loaded.has(Number(part.dataset.part))) part.style.minHeight = `${height}px`;
    }
  }

  // Loads the parts that are not there yet from `number` on, several with one call.
  function load(number) {
    if (layer === "sheets" || loaded.has(number)) return Promise.resolve();
    if (loading.has(number)) return loading.get(number);
    const wanted = [];
    for (let next = number; next < textParts.length && wanted.length < PARTS_AT_ONCE; next += 1) {
      if (loaded.has(next) || loading.has(next)) break;
      wanted.push(next);
    }
    const address = `/room/${id}/parts/${number}?count=${wanted.length}`;
    const promise = call(address, { headers: { "x-part": "true" } }).then((response) => response.text()).then((html) => {
      const found = new DOMParser().parseFromString(html, "text/html").querySelectorAll("section");
      found.forEach((section, index) => {
        const part = textParts[wanted[index]];
        part.replaceChildren(...section.childNodes);
        part.style.minHeight = "";
        loaded.add(wanted[index]);
      });
      markAgain(wanted);
    }).finally(() => wanted.forEach((one) => loading.delete(one)));
    wanted.forEach((one) => loading.set(one, promise));
    return promise;
  }

  async function loadAll() {
    for (let number = 0; number < Math.min(textParts.length, MOST_PARTS_AHEAD); number += 1) {
      if (layer !== "text") return;
      if (loaded.has(number)) continue;
      try { await load(number); } catch (error) { tell(error); return; }
      await new Promise((done) => setTimeout(done, 30));  // the reader's own calls come first
    }
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) load(Number(entry.target.dataset.part)).catch(tell);
  }, { root: paper, rootMargin: "1500px" });
  textParts.forEach((part) => near.observe(part));

  const partAt = (char) => parts.findIndex((part) => char >= Number(part.dataset.start) && char < Number(part.dataset.end));

  // -- marks ------------------------------------------------------------------------------------

  let shownMarks = [];  // of the answer that is shown: {start, end, weight, index}

  function clearMarks() {
    for (const box of paper.querySelectorAll(".box")) box.remove();
    for (const mark of paper.querySelectorAll("mark")) {
      const parent = mark.parentNode;
      mark.replaceWith(...mark.childNodes);
      parent.normalize();
    }
  }

  function markAgain(numbers) {
    if (layer === "sheets") shownMarks.forEach(markSheets);
    else for (const mark of shownMarks) markSpan(mark, numbers);
  }

  // Draws boxes around the words of a span on the pictures of pages that it is on.
  async function markSheets(mark) {
    const now = shownMarks;
    for (const part of parts) {
      if (Number(part.dataset.end) <= mark.start || Number(part.dataset.start) >= mark.end) continue;
      let body;
      try {
        const address = `/documents/${id}/pages/${part.dataset.page}/words?start=${mark.start}&end=${mark.end}`;
        body = await (await call(address)).json();
      } catch (error) { return error.status === 400 ? showLayer("text") : tell(error); }
      if (now !== shownMarks || layer !== "sheets") return;
      lines(body.words).forEach((line, index) => {
        const box = element("mark", { class: `box ${String(mark.index).startsWith("q") ? "quote" : "evidence"}`, "data-index": mark.index, tabindex: -1 });
        if (!index) box.append(element("span", { class: "visually-hidden" }, String(mark.index).startsWith("q") ? "Quoted here" : `Passage ${mark.index + 1}`));
        box.style.setProperty("--weight", Math.min(1, 0.25 + mark.weight));
        for (const [side, value, whole] of [["left", line.left, body.width], ["top", line.top, body.height], ["width", line.right - line.left, body.width], ["height", line.bottom - line.top, body.height]]) box.style[side] = `${100 * value / whole}%`;
        part.append(box);
      });
    }
  }

  // Joins the boxes of words that stand beside each other.
  function lines(words) {
    const joined = [];
    for (const { left, top, right, bottom } of words) {
      const last = joined[joined.length - 1], height = bottom - top;
      if (last && Math.abs(last.bottom - bottom) < height / 3 && left >= last.left && left - last.right < 2 * height) {
        Object.assign(last, { right: Math.max(last.right, right), top: Math.min(last.top, top), bottom: Math.max(last.bottom, bottom) });
      } else joined.push({ left, top, right, bottom });
    }
    return joined;
  }

  function showLayer(name) {
    const middle = paper.scrollTop + paper.clientHeight / 2;
    const at = parts.find((part) => part.offsetTop + part.offsetHeight > middle);
    layer = name;
    ({ parts } = layers[name]);
    for (const [one, { box }] of Object.entries(layers)) box.hidden = one !== name;
    for (const button of document.querySelectorAll("[data-layer]")) button.setAttribute("aria-pressed", String(button.dataset.layer === name));
    clearMarks();
    estimateHeights();
    markAgain([...loaded]);
    const same = at && parts[partAt(Number(at.dataset.start))];
    if (current && current.body.evidence.length + current.body.quotes.length) jumpQuietly(current);
    else if (same) paper.scrollTop = same.offsetTop;
    if (name === "text") loadAll().then(drawStrip);
    drawStrip();
  }
  document.querySelector(".layers")?.addEventListener("click", (event) => {
    const button = event.target.closest("[data-layer]");
    if (button && button.dataset.layer !== layer) showLayer(button.dataset.layer);
  });

  function markSpan(mark, numbers) {
    for (const number of numbers) {
      const part = parts[number];
      if (Number(part.dataset.end) <= mark.start || Number(part.dataset.start) >= mark.end) continue;
      for (const block of part.querySelectorAll("[data-start]")) markBlock(block, mark);
    }
  }

  // Wraps the characters of a block that a span covers; offsets count characters, not UTF-16 units.
  function markBlock(block, mark) {
    let at = Number(block.dataset.start);
    if (at >= mark.end || at + block.textContent.length <= mark.start) return;
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    for (let node of nodes) {
      const text = node.data, length = points(text);
      const from = Math.max(mark.start - at, 0), to = Math.min(mark.end - at, length);
      at += length;
      if (from >= to) continue;
      const units = (number) => length === text.length ? number : [...text].slice(0, number).join("").length;
      const last = units(to), first = units(from);
      if (last < text.length) node.splitText(last);
      if (first > 0) node = node.splitText(first);
      if (!node.data.trim()) continue;
      const isQuote = String(mark.index).startsWith("q");
      const wrapped = element("mark", { class: isQuote ? "quote" : "evidence", "data-index": mark.index, tabindex: -1, title: isQuote ? "Quoted in the answer" : `Passage ${mark.index + 1}: ${share(mark.weight)} of the attention` });
      wrapped.style.setProperty("--weight", Math.min(1, 0.25 + mark.weight));
      node.replaceWith(wrapped);
      wrapped.append(node);
    }
  }

  function showMarks(body) {
    clearMarks();
    shownMarks = body ? [
      ...body.evidence.map((passage, index) => ({ start: passage.start_char, end: passage.end_char, weight: passage.weight, index })),
      ...body.quotes.map((quote, index) => ({ start: quote.start_char, end: quote.end_char, weight: 1, index: `q${index}` })),
    ] : [];
    markAgain([...loaded]);
  }

  // Brings a mark into view; on a picture it is there once the words' boxes are.
  async function markOf(index, number) {
    if (layer === "sheets") parts[number].scrollIntoView({ block: "nearest" });
    for (let tries = 0; tries < 60; tries += 1) {
      const mark = paper.querySelector(`mark[data-index="${index}"]`);
      if (mark || layer !== "sheets") return mark;
      await new Promise((done) => setTimeout(done, 50));
    }
    return null;
  }

  async function jump(turn, index, char) {
    show(turn);
    view("document");
    const number = partAt(char);
    if (number < 0) return toast("The text of this document cannot be shown now.");
    try { await load(number); } catch (error) { return tell(error); }
    const mark = await markOf(index, number);
    if (!mark) return;
    mark.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => { mark.scrollIntoView({ block: "center" }); mark.focus({ preventScroll: true }); });
    for (const other of paper.querySelectorAll("mark.now")) other.classList.remove("now");
    for (const one of paper.querySelectorAll(`mark[data-index="${index}"]`)) one.classList.add("now");
  }

  // -- the strip: attention over the whole document ---------------------------------------------

  let shownAttention = null;

  function placeOf(char) {  // in the paper, as a share of its height
    const part = parts[partAt(Math.min(char, numChars - 1))];
    if (!part) return 0;
    const within = (char - part.dataset.start) / Math.max(1, part.dataset.end - part.dataset.start);
    return (part.offsetTop + within * part.offsetHeight) / paper.scrollHeight;
  }

  function drawStrip() {
    strip.hidden = !shownAttention || !numChars;
    if (strip.hidden) return;
    const canvas = byId("strip-canvas"), ratio = devicePixelRatio || 1;
    const width = strip.clientWidth, height = strip.clientHeight;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(page), bins = shownAttention, most = Math.max(...bins);
    pen.fillStyle = style.getPropertyValue("--heat");
    bins.forEach((mass, bin) => {
      if (mass <= 0) return;
      const top = placeOf(bin * numChars / bins.length) * height;
      const bottom = placeOf((bin + 1) * numChars / bins.length) * height;
      pen.globalAlpha = Math.max(0.04, Math.sqrt(mass / most));
      pen.fillRect(0, top, width, Math.max(1, bottom - top));
    });
    pen.globalAlpha = 1;
    pen.fillStyle = style.getPropertyValue("--ink");
    for (const mark of shownMarks) pen.fillRect(0, placeOf(mark.start) * height - 1, width, 2);
    const peaks = bins.map((mass, bin) => [mass, bin]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const words = peaks.map(([mass, bin]) => `${share(mass)} at ${Math.round(100 * bin / bins.length)} percent of the text`);
    strip.setAttribute("aria-label", `Attention over the document: ${words.join(", ")}`);
    moveView();
  }

  function moveView() {
    const box = byId("strip-view"), height = strip.clientHeight;
    box.style.top = `${paper.scrollTop / paper.scrollHeight * height}px`;
    box.style.height = `${Math.max(4, paper.clientHeight / paper.scrollHeight * height)}px`;
  }

  paper.addEventListener("scroll", () => { if (!strip.hidden) requestAnimationFrame(moveView); }, { passive: true });
  new ResizeObserver(() => requestAnimationFrame(drawStrip)).observe(paper);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawStrip);
  strip.addEventListener("click", (event) => {
    const place = (event.clientY - strip.getBoundingClientRect().top) / strip.clientHeight;
    paper.scrollTo({ top: place * paper.scrollHeight - paper.clientHeight / 2 });
  });

  // -- narrow screens show one of the two --------------------------------------------------------

  function view(name) {
    page.dataset.view = name;
    for (const button of document.querySelectorAll("[data-show]")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === name));
    }
  }
  document.querySelector(".views").addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    if (button) view(button.dataset.show);
  });

  // -- the budget --------------------------------------------------------------------------------

  const LEAST = 0.02, NAMED = { fast: 0.05, balanced: 0.15, exact: 1 };
  const dial = byId("budget");
  let budget = "balanced";
  const valueOf = (chosen) => typeof chosen === "string" ? NAMED[chosen] : chosen;
  const toShare = (place) => LEAST * (1 / LEAST) ** (place / 100);
  const toPlace = (value) => 100 * Math.log(value / LEAST) / Math.log(1 / LEAST);

  function setBudget(chosen) {
    budget = chosen;
    for (const button of document.querySelectorAll("[data-budget]")) {
      button.setAttribute("aria-pressed", String(button.dataset.budget === chosen));
    }
    if (chosen === "auto") {
      const last = turns.findLast((turn) => turn.body && turn.body.budget.tolerance !== null);
      byId("budget-effect").textContent = `auto: the smallest budget that is predicted to lose next to nothing for this document${last ? `; last time ${share(last.body.budget.applied)}` : ""}`;
      dial.setAttribute("aria-valuetext", "chosen for each document");
      return;
    }
    const value = valueOf(chosen);
    if (document.activeElement !== dial) dial.value = Math.round(toPlace(value));
    const tokens = numTokens();
    const read = tokens ? `about ${count(value * tokens)} of ${count(tokens)} tokens` : share(value);
    const name = typeof chosen === "string" ? `${chosen}: ` : "";
    const like = measured(value);
    const what = value >= 1 ? "reads everything that the model's heads keep" : `reads at most ${share(value)}, ${read}`;
    byId("budget-effect").textContent = `${name}${what} for each word${like}`;
    dial.setAttribute("aria-valuetext", `${share(value)} of the document`);
  }
  // What the latest answer with the same budget took, or what the latest would have taken with it.
  function measured(value) {
    const like = turns.findLast((turn) => turn.body && Math.abs(turn.body.budget.requested - value) < 0.001);
    if (like) return `; the last answer so took ${duration(like.body.timings_ms.total)}`;
    const last = turns.findLast((turn) => turn.body && estimate(turn.body, value) !== null);
    return last ? `; the last answer would have taken about ${duration(estimate(last.body, value))} so` : "";
  }
  // Milliseconds of an answer if it had read a share of the document for each word; null if unknown.
  function estimate({ budget: read, usage, timings_ms: times }, value) {
    if (!cost || !read.loaded || !usage.kv_bytes_read) return null;
    const more = usage.kv_bytes_read * (value / read.loaded - 1);
    return Math.max(times.first_token, times.total + cost.ms_per_gib * more / 2 ** 30);
  }
  dial.addEventListener("input", () => setBudget(dial.value >= 100 ? "exact" : Math.round(toShare(Number(dial.value)) * 1000) / 1000));
  document.querySelector(".budget-names").addEventListener("click", (event) => {
    const button = event.target.closest("[data-budget]");
    if (button) setBudget(button.dataset.budget);
  });

  // -- the conversation ---------------------------------------------------------------------------

  let turns = [];      // of the conversation that is shown: {question, answer, body, item, ...}
  let current = null;  // the turn whose evidence is shown
  let running = null;  // the question that is being answered
  let conversations = [];
  let cost = null;     // of reading a GiB more, by earlier answers: {ms_per_gib, num_answers}
  const DRAFT = `draft-${id}`;

  function addTurn(question) {
    const turn = { question, answer: "", thinking: "", body: null };
    turn.answerBox = element("div", { class: "answer" });
    turn.below = element("div", { class: "below" });
    turn.item = element("li", { class: "turn" }, element("p", { class: "question" }, question), turn.answerBox, turn.below);
    turns.push(turn);
    turnList.append(turn.item);
    return turn;
  }

  function finish(turn, given) {
    // An answer that an earlier version kept lacks what was added since.
    const body = { quotes: [], sentences: [], grounded: null, refused: false, attention: null, num_dropped_turns: 0, thinking: null, ...given };
    body.budget = { tolerance: null, predicted_loss: null, ...given.budget };
    Object.assign(turn, { body, answer: body.answer });
    turn.answerBox.replaceChildren(...answerParts(turn));
    if (body.thinking) {
      turn.answerBox.prepend(element("details", { class: "thinking" }, element("summary", {}, `Thought for ${count(body.thinking.num_tokens)} tokens`), body.thinking.text));
    }
    turn.below.replaceChildren(...checks(body), passages(turn), effect(body), buttons(turn));
    turn.item.removeAttribute("aria-busy");
    byId("export").disabled = false;
    setBudget(budget);
  }

  // The answer's text, with its quotes as links, and claims marked that the document does not have.
  function answerParts(turn) {
    const { body } = turn, letters = [...body.answer];
    if (!letters.length) return ["(no text)"];
    const quotes = body.quotes.map((quote, index) => ({ start: quote.answer_start, end: quote.answer_end, quote, index }));
    const claims = (body.grounded || []).filter((claim) => !claim.is_grounded);
    const spans = [...(quotes.length ? quotes : claims), ...citations(body)].sort((a, b) => a.start - b.start || a.end - b.end);
    const parts = [];
    let at = 0;
    for (const span of spans) {
      if (span.start < at) continue;
      parts.push(letters.slice(at, span.start).join(""));
      const text = letters.slice(span.start, span.end).join("");
      parts.push(span.passage ? element("button", { class: "cite", type: "button", "aria-label": `Passage ${span.index + 1}`, onclick: () => jump(turn, span.index, span.passage.start_char) }, String(span.index + 1)) : span.quote
        ? element("button", { class: "quoted", type: "button", title: "Show this quote on the page", onclick: () => jump(turn, `q${span.index}`, span.quote.start_char) }, text)
        : element("span", { class: "ungrounded", title: "This stands nowhere in the document" }, text));
      at = span.end;
    }
    return [...parts, letters.slice(at).join("")];
  }

  // The numbers of the passages that each sentence of an answer comes from, to stand behind it.
  function citations(body) {
    return body.sentences.flatMap((sentence) => sentence.evidence.flatMap((own) => {
      const index = body.evidence.findIndex((one) => one.start_char === own.start_char);
      return index < 0 ? [] : [{ start: sentence.end, end: sentence.end, index, passage: body.evidence[index] }];
    })).sort((a, b) => a.index - b.index);
  }

  // What can be said about whether the answer is right.
  function checks(body) {
    const lines = [];
    const claims = body.grounded || [], missing = claims.filter((claim) => !claim.is_grounded);
    if (body.refused) lines.push(["note", "The model found no answer in this document. The passages below are those that it looked at most."]);
    else if (body.quotes.length) lines.push(["sure", "Every word of this answer is quoted from the document."]);
    if (missing.length) lines.push(["warning", `Not in the document: ${missing.map((claim) => `“${claim.text}”`).join(", ")}. Check this answer.`]);
    else if (claims.length && !body.quotes.length) lines.push(["sure", `All ${claims.length} numbers, names and codes of this answer stand in the document.`]);
    if (body.finish_reason === "repetition") lines.push(["warning", "The model began to repeat itself, and was stopped."]);
    if (body.finish_reason === "length") lines.push(["warning", "The answer was cut at the longest length."]);
    return lines.map(([kind, words]) => element("p", { class: kind }, words));
  }

  const WEIGHTS = "attention: a passage's share of what the model attended to; words: how well its rare words fit, 100 % being the best passage";

  function passages(turn) {
    const { evidence } = turn.body;
    if (!evidence.length) return element("p", { class: "note" }, "No passage got much more attention than the others.");
    const list = element("ol", { class: "passages", "aria-label": "Passages that the model attended to", title: WEIGHTS });
    evidence.forEach((passage, index) => {
      const meter = element("meter", { min: 0, max: 1, value: passage.weight, "aria-label": "Share of the attention" });
      const words = passage.lexical ? `words ${share(passage.lexical)}` : "";
      const where = [placeOfPassage(passage), `attention ${share(passage.weight)}`, words].filter(Boolean).join(" · ");
      const link = element("button", { class: "passage", type: "button", onclick: () => jump(turn, index, passage.start_char) },
        element("span", { class: "where" }, element("span", { class: "number" }, String(index + 1)), meter, where),
        element("q", {}, passage.quote));
      list.append(element("li", {}, link));
    });
    return list;
  }

  function placeOfPassage({ page: number, heading, paragraph }) {
    if (number) return `page ${number}`;
    const short = heading && heading.length > 50 ? `${heading.slice(0, 49)}…` : heading;
    return [short, paragraph ? `paragraph ${paragraph}` : ""].filter(Boolean).join(", ");
  }

  function effect(body) {
    const { budget: read, usage, timings_ms: times } = body;
    const tokens = usage.document_tokens, readMs = Number(page.dataset.readingMs);
    const whole = usage.kv_bytes_read && read.loaded ? `: ${bytes(usage.kv_bytes_read / read.loaded)} for this answer instead of ${bytes(usage.kv_bytes_read)}` : "";
    const fullMs = read.loaded < 1 ? estimate(body, 1) : null;
    const took = fullMs === null ? "" : `, and would have taken about ${duration(fullMs)}, by the times of ${count(cost.num_answers)} answers`;
    const lines = [
      `Read ${share(read.loaded)} of the document's cache for each word, as much as ${count(read.loaded * tokens)} of ${count(tokens)} tokens in all heads${read.raised ? `, more than the ${share(read.requested)} asked for, as this document needs at least ${share(read.applied)}` : ""}.`,
      `First word after ${duration(times.first_token)}, whole answer after ${duration(times.total)}.`,
      `Full attention would have read all ${count(tokens)} tokens in every head for each word${whole}${took}.${readMs ? ` Reading the document again takes ${duration(readMs)}.` : ""}`,
    ];
    const exact = turns.findLast((turn) => turn.body && turn.body !== body && turn.body.budget.requested >= 1 && turn.body.usage.kv_bytes_read);
    if (exact && read.requested < 1 && fullMs === null) lines.push(`With the budget Exact, an answer of this conversation took ${duration(exact.body.timings_ms.total)}.`);
    if (read.tolerance !== null) lines.push(`The budget ${share(read.applied)} was chosen to lose at most ${share(read.tolerance)}${read.predicted_loss === null ? "" : `; predicted are ${share(read.predicted_loss)}`}.`);
    if (body.num_dropped_turns) lines.push(`The oldest ${count(body.num_dropped_turns)} turns no longer fitted and were left out.`);
    if (!usage.kv_bytes_read) lines.splice(0, 2, "The same question was answered before: this is that answer, and nothing was read for it.");
    return element("p", { class: "effect" }, ...lines.flatMap((line, index) => index ? [" ", line] : [line]));
  }

  function buttons(turn) {
    return element("p", { class: "actions" },
      element("button", { class: "quiet", type: "button", onclick: () => { show(turn); view("document"); } }, "Show on the page"),
      element("button", { class: "quiet", type: "button", onclick: () => lectern.copy(markdown([turn], false)).then(() => toast("Copied."), () => toast("The browser did not allow copying.")) }, "Copy"));
  }

  function show(turn) {
    if (current) current.item.classList.remove("shown");
    current = turn;
    turn.item.classList.add("shown");
    showMarks(turn.body);
    shownAttention = turn.body.attention;
    drawStrip();
  }

  function failed(turn, error) {
    turn.item.removeAttribute("aria-busy");
    turn.answerBox.textContent = turn.answer;
    const again = element("button", { class: "quiet", type: "button", onclick: () => { drop(turn); send(turn.question); } }, "Ask again");
    const edit = element("button", { class: "quiet", type: "button", onclick: () => { drop(turn); field.value = turn.question; field.focus(); } }, "Edit the question");
    const ways = error.status === 401 ? [lectern.loginLink()] : [again, " ", edit];
    const wait = error.retryAfterS ? ` Try again in about ${duration(1000 * error.retryAfterS)}.` : "";
    const words = error.name === "AbortError" ? "You stopped this answer." : error.message + wait;
    turn.below.replaceChildren(element("p", { class: "problem", role: "alert" }, words), element("p", { class: "actions" }, ...ways));
    sessionStorage.setItem(DRAFT, turn.question);
  }

  function drop(turn) {
    turns = turns.filter((one) => one !== turn);
    turn.item.remove();
  }

  async function send(question) {
    const before = turns.findLast((turn) => turn.body && turn.body.answer_id);
    const turn = addTurn(question);
    const stop = new AbortController();
    running = stop;
    turn.item.setAttribute("aria-busy", "true");
    turn.below.replaceChildren(element("p", { class: "note" }, "Looking …"), element("p", { class: "actions" }, element("button", { class: "quiet", type: "button", onclick: () => stop.abort() }, "Stop")));
    turn.item.scrollIntoView({ block: "end" });
    setSending(true);
    const json = { question, budget, stream: true, keep: true, drop_oldest_turns: true, attention: true };
    if (before) json.previous_answer_id = before.body.answer_id;
    json.mode = byId("quote").checked ? "quote" : "free";
    try {
      let body = null;
      const response = await call(`/documents/${id}/ask`, { method: "POST", json, signal: stop.signal });
      await lectern.events(response, (name, data) => {
        if (name === "piece") {
          turn.answer += data.text;
          turn.answerBox.textContent = turn.answer;
          turnList.scrollTo({ top: turnList.scrollHeight });
        } else if (name === "thinking") {
          turn.thinking += data.text;
          turn.below.firstChild.textContent = "Thinking …";
        } else if (name === "answer") body = data;
        else if (name === "error") throw new lectern.ApiError(500, data.error.code, data.error.message, null);
      });
      if (!body) throw new lectern.ApiError(0, "incomplete", "The connection broke before the answer was complete.", null);
      finish(turn, body);
      show(turn);
      sessionStorage.removeItem(DRAFT);
      if (body.evidence.length + body.quotes.length && matchMedia("(min-width: 801px)").matches) await jumpQuietly(turn);
      turn.item.scrollIntoView({ block: "nearest" });
      loadHistory(false);
    } catch (error) {
      failed(turn, error.status === undefined && error.name !== "AbortError"
        ? new lectern.ApiError(0, "no_connection", "The connection broke before the answer was complete.", null) : error);
    } finally {
      running = null;
      setSending(false);
    }
  }

  async function jumpQuietly(turn) {
    const [quote] = turn.body.quotes, number = partAt((quote || turn.body.evidence[0]).start_char);
    if (number < 0) return;
    await load(number);
    const mark = await markOf(quote ? "q0" : "0", number);
    if (mark) { mark.scrollIntoView({ block: "center" }); requestAnimationFrame(() => mark.scrollIntoView({ block: "center" })); }
  }

  function setSending(on) {
    byId("send").disabled = on || page.dataset.canAsk !== "true";
  }

  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (!question || running) return;
    if (!["ready", "readable"].includes(page.dataset.status)) {
      sessionStorage.setItem(DRAFT, question);
      return toast("The document is still being read; ask when it is ready.");
    }
    field.value = "";
    send(question);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); byId("ask").requestSubmit(); }
  });
  field.value = sessionStorage.getItem(DRAFT) || "";
  field.addEventListener("input", () => sessionStorage.setItem(DRAFT, field.value));

  // -- history -------------------------------------------------------------------------------------

  const chooser = byId("history");
  const titleOf = (conversation) => {
    const question = conversation.turns[0].question;
    return question.length > 60 ? `${question.slice(0, 59)}…` : question;
  };

  async function loadHistory(open) {
    try { ({ conversations, cost } = await (await call(`/room/${id}/history`)).json()); } catch (error) { if (open) tell(error); return; }
    const options = conversations.map((one, index) => element("option", { value: index }, `${titleOf(one)} (${one.turns.length})`));
    chooser.replaceChildren(element("option", { value: "" }, "New conversation"), ...options);
    if (open && conversations.length && !turns.length) openConversation(0);  // unless somebody has asked already
    const last = turns.findLast((turn) => turn.body && turn.body.answer_id);
    const shown = last ? conversations.findIndex((one) => one.turns.some((turn) => turn.answer_id === last.body.answer_id)) : -1;
    chooser.value = shown >= 0 ? String(shown) : "";
  }

  function openConversation(index) {
    turns = [];
    turnList.replaceChildren();
    for (const kept of conversations[index].turns) {
      const turn = addTurn(kept.question);
      if (kept.body) finish(turn, kept.body);
      else { turn.answer = kept.answer; turn.answerBox.textContent = kept.answer; }
    }
    const last = turns.findLast((turn) => turn.body);
    if (last) show(last);
    turnList.scrollTo({ top: turnList.scrollHeight });
  }

  chooser.addEventListener("change", () => {
    if (chooser.value !== "") return openConversation(Number(chooser.value));
    turns = [];
    current = shownAttention = null;
    turnList.replaceChildren();
    showMarks(null);
    drawStrip();
    byId("export").disabled = true;
    field.focus();
  });

  function markdown(some, hasTitle = true) {
    const lines = hasTitle ? [`# ${page.dataset.name}`, ""] : [];
    for (const { question, answer, body } of some) {
      const evidence = body ? body.evidence : [];
      const quotes = body ? body.quotes : [];
      const marks = evidence.map((_, index) => `[${index + 1}]`).join("");
      lines.push(`**${question}**`, "", answer + (marks ? ` ${marks}` : ""), "");
      evidence.forEach((passage, index) => {
        const quote = passage.quote.replace(/\s+/g, " ");
        lines.push(`${index + 1}. “${quote}” (${[page.dataset.name, placeOfPassage(passage)].filter(Boolean).join(", ")}, characters ${passage.start_char}–${passage.end_char}, ${share(passage.weight)} of the attention)`);
      });
      for (const quote of quotes) lines.push(`- Quoted: “${quote.text.replace(/\s+/g, " ")}” (${quote.page ? `page ${quote.page}, ` : ""}characters ${quote.start_char}–${quote.end_char})`);
      if (body) lines.push("", `Budget ${share(body.budget.requested)}, read ${share(body.budget.loaded)}; ${duration(body.timings_ms.total)}.`, "");
    }
    return lines.join("\n");
  }
  byId("export").addEventListener("click", () => {
    const stem = page.dataset.name.replace(/\.[^.]*$/, "");
    lectern.download(`${stem} - conversation.md`, markdown(turns));
  });

  // -- the document's own life ----------------------------------------------------------------------

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-action]");
    if (!button) return;
    const { action } = button.dataset, name = page.dataset.name;
    try {
      if (action === "delete") {
        if (!await ask(`Delete “${name}”? Its file, its cache and its conversations are removed for good.`, { yes: "Delete" })) return;
        await call(`/documents/${id}`, { method: "DELETE" });
        location.assign("/");
      } else if (action === "rename") {
        const renamed = await ask("The document's new name:", { yes: "Rename", text: name });
        if (!renamed) return;
        const body = await (await call(`/documents/${id}`, { method: "PATCH", json: { filename: renamed } })).json();
        page.dataset.name = byId("title").textContent = body.filename;
        document.title = `${body.filename} · Lectern`;
      } else {
        await call(`/documents/${id}/${action}`, { method: "POST" });
        location.reload();
      }
    } catch (error) { tell(error); }
  });

  // Follows the reading, and shows the document when it has been read. The browser itself connects
  // again after the server was restarted.
  function follow() {
    const words = { extract: "Extracting text", tokenize: "Tokenizing", prefill: "Reading", cluster: "Clustering keys", calibrate: "Calibrating budgets", pack: "Storing" };
    const source = new EventSource(`/documents/${id}/events`);
    let first = null;
    source.addEventListener("progress", (event) => {
      const state = JSON.parse(event.data);
      if (["ready", "failed"].includes(state.status)) { source.close(); location.reload(); return; }
      if (!byId("waiting")) return;
      byId("phase").textContent = words[state.phase] || "Waiting for a worker";
      if (!state.tokens_total) return;
      const done = state.tokens_done / state.tokens_total, now = performance.now();
      byId("progress").max = 1;
      byId("progress").value = done;
      if (!first || done < first.done) first = { done, now };
      const speed = (done - first.done) / (now - first.now);
      const left = speed > 0 && done - first.done > 0.02 ? ` · about ${duration((1 - done) / speed)} left` : "";
      byId("left").textContent = `${count(state.tokens_done)} of ${count(state.tokens_total)} tokens${left}`;
    });
    source.addEventListener("error", (event) => {
      if (!event.data) {
        if (source.readyState === EventSource.CLOSED) toast("The progress cannot be followed.", lectern.loginLink());
        return;
      }
      const { error } = JSON.parse(event.data);
      if (error.code !== "shutting_down") { source.close(); toast(error.message); }
    });
  }

  estimateHeights();
  setBudget("balanced");
  if (layer === "text") loadAll().then(drawStrip);
  if (["queued", "reading", "readable", "rebuilding"].includes(page.dataset.status)) follow();
  if (page.dataset.canAsk === "true" && page.dataset.status !== "failed") loadHistory(true);
})();
