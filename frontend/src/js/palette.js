// The palette: what a text may mean, each with an address. Ctrl-K and "/" open it; arrows choose,
// Enter goes there, Escape closes. Without scripts [data-palette] is a link to the page of the search.
//
//   typed ──▶ search.json?q= ──▶ groups of entries ──▶ options; an answer to an older text is dropped
const WAIT_MS = 120;

export function startPalette() {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[role=status]");
  const options = () => [...list.querySelectorAll("[role=option]")];
  let chosen = null;
  let timer = null;
  let asked = null;

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    const isSlash = event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    if (!isSlash && !isK) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.querySelector("[data-palette]").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.indexOf(chosen);
    const next = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length }[event.key];
    if (next !== undefined && all.length) {
      event.preventDefault();
      choose(all[next]);
    }
  });
  // Enter: what is chosen of the text that is there now, however fast it was typed.
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (list.dataset.text !== input.value.trim()) await ask();
    if (chosen) chosen.click();
    else if (list.dataset.text !== input.value.trim()) event.target.submit();
  });

  function open() {
    for (const other of document.querySelectorAll("dialog[open]")) other.close();
    dialog.showModal();
    input.select();
    if (list.dataset.text !== input.value.trim()) ask();
  }

  async function ask() {
    const text = input.value.trim();
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      const answer = await fetch(`${dialog.dataset.url}?q=${encodeURIComponent(text)}`, { signal });
      if (!answer.ok) throw new Error(String(answer.status));
      const { groups } = await answer.json();
      list.dataset.text = text;
      show(groups);
    } catch {
      if (!signal.aborted) status.textContent = status.dataset.failed;
    }
  }

  function show(groups) {
    list.replaceChildren(...groups.map(groupOf));
    status.textContent = groups.length ? "" : status.dataset.none;
    choose(options()[0] ?? null);
  }

  function groupOf({ title, entries }, number) {
    const group = document.createElement("div");
    const heading = document.createElement("p");
    heading.id = `palette-${number}`;
    heading.className = "menu-title";
    heading.textContent = title;
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", heading.id);
    group.append(heading, ...entries.map((entry, at) => optionOf(entry, `palette-${number}-${at}`)));
    return group;
  }

  function optionOf({ title, url }, id) {
    const option = document.createElement("a");
    Object.assign(option, { id, href: url, textContent: title, className: "menu-item", tabIndex: -1 });
    option.setAttribute("role", "option");
    option.addEventListener("pointermove", () => choose(option));
    option.addEventListener("click", () => dialog.close()); // it may be a section of this page
    return option;
  }

  function choose(option) {
    chosen?.removeAttribute("aria-selected");
    chosen = option;
    chosen?.setAttribute("aria-selected", "true");
    chosen?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }
}
