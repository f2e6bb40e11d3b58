// Says on the page when its figures have stopped refreshing.
const stale = (on) => document.body.toggleAttribute("data-stale", on);
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, () => stale(true));
}
document.addEventListener("htmx:afterSwap", () => stale(false));
