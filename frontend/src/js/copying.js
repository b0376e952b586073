// <div class="copying"><pre>…</pre></div> gets a button that copies the text.
export function startCopying() {
  const words = document.documentElement.dataset;
  if (!navigator.clipboard) return;
  for (const box of document.querySelectorAll(".copying")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button button-quiet button-small";
    button.textContent = words.copy;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(box.querySelector("pre").textContent);
      button.textContent = words.copied;
      setTimeout(() => (button.textContent = words.copy), 1500);
    });
    box.append(button);
  }
}
