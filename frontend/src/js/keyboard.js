// "/" leads to the search, Escape out of it.
export function startKeyboard() {
  const input = document.querySelector("#search");
  if (!input) return;
  const found = document.querySelector("#found");
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
      input.select();
    } else if (event.key === "Escape" && event.target === input) {
      found.replaceChildren();
      input.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.childElementCount) {
      const links = [input, ...found.querySelectorAll("a")];
      const place = links.indexOf(document.activeElement);
      if (place < 0) return;
      event.preventDefault();
      links.at((place + (event.key === "ArrowDown" ? 1 : -1)) % links.length).focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) found.replaceChildren();
  });
  // What was typed before htmx listened is searched for as well. Which script is first varies.
  const searchTyped = () => {
    const isTyped = input.value && document.activeElement === input;
    if (isTyped) input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  input.addEventListener("htmx:after:init", searchTyped, { once: true });
  searchTyped();
}
