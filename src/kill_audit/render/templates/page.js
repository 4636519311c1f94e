
"use strict";
(() => {
  const list = document.getElementById("list");
  const tools = document.getElementById("tools");
  const search = document.getElementById("search");
  const order = document.getElementById("order");
  const shown = document.getElementById("shown");
  const none = document.getElementById("none");
  const more = document.getElementById("more");
  const filters = [...tools.querySelectorAll("select[data-filter]")];
  const kills = [...list.tBodies];
  const headers = [...list.tHead.querySelectorAll("th[data-key]")];
  const words = new Map(kills.map((kill) => [kill, kill.textContent.toLowerCase()]));
  const numeric = new Set(["ran"]);
  const AT_ONCE = 200; // a browser lays out a few hundred rows at once without a pause
  let limit = AT_ONCE;
  let ordered = kills;

  function filter() {
    const asked = search.value.trim().toLowerCase().split(/\s+/);
    const fitting = ordered.filter((kill) =>
      filters.every((one) => one.value === "" || kill.dataset[one.dataset.filter] === one.value)
      && asked.every((word) => words.get(kill).includes(word)));
    const visible = new Set(fitting.slice(0, limit));
    for (const kill of kills) {
      kill.hidden = !visible.has(kill);
    }
    const all = `${kills.length.toLocaleString("en")} ${kills.length === 1 ? "kill" : "kills"}`;
    const fits = fitting.length === kills.length ? all : `${fitting.length.toLocaleString("en")} of ${all}`;
    const part = visible.size === fitting.length ? "" : `; the first ${visible.size.toLocaleString("en")} are shown`;
    shown.textContent = fits + part;
    none.hidden = fitting.length > 0;
    more.hidden = visible.size === fitting.length;
  }

  function restart() {
    limit = AT_ONCE;
    filter();
  }

  function compare(key) {
    if (numeric.has(key)) {
      return (a, b) => Number(a.dataset[key] || -1) - Number(b.dataset[key] || -1);
    }
    return (a, b) => (a.dataset[key] < b.dataset[key] ? -1 : a.dataset[key] > b.dataset[key] ? 1 : 0);
  }

  function sort(wanted) {
    const down = wanted.startsWith("-");
    const key = down ? wanted.slice(1) : wanted;
    ordered = key === "" ? kills : [...kills].sort(compare(key));
    if (down) {
      ordered.reverse();
    }
    list.append(...ordered);
    for (const header of headers) {
      if (header.dataset.key === key) {
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
      } else {
        header.removeAttribute("aria-sort");
      }
    }
    order.selectedIndex = [...order.options].findIndex((option) => option.value === wanted);
    restart();
  }

  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details");
    if (folded) {
      folded.open = true;
    }
    if (target?.hidden) {
      target.hidden = false;
    }
    target?.scrollIntoView();
  }

  for (const header of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const key = header.dataset.key;
      const first = numeric.has(key) ? `-${key}` : key;
      const other = numeric.has(key) ? key : `-${key}`;
      const current = header.getAttribute("aria-sort");
      const already = current === (numeric.has(key) ? "descending" : "ascending");
      sort(already ? other : first);
    });
  }
  search.addEventListener("input", restart);
  for (const one of filters) {
    one.addEventListener("change", restart);
  }
  order.addEventListener("change", () => sort(order.value));
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("reset", () => setTimeout(() => sort("")));
  more.addEventListener("click", () => {
    limit += AT_ONCE;
    filter();
  });
  window.addEventListener("hashchange", unfold);
  window.addEventListener("beforeprint", () => { // paper has no button that shows more
    limit = Infinity;
    filter();
  });
  window.addEventListener("afterprint", restart);
  filter();
  tools.hidden = false;
  unfold();
})();
