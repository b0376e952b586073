// A language that is chosen for one step is chosen for all steps of the page.
export function startSnippets() {
  document.addEventListener("change", ({ target }) => {
    if (!target.matches(".snippets [type=radio]")) return;
    for (const each of document.querySelectorAll(".snippets [type=radio]")) {
      if (each.value === target.value) each.checked = true;
    }
  });
}
