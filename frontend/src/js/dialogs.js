// A link with data-dialog leads to a page; where there is a dialog of that id it opens instead.
export function startDialogs() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-dialog]");
    if (link) {
      const dialog = document.getElementById(link.dataset.dialog);
      if (!dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      dialog.showModal();
    } else if (event.target.closest("[data-close]")) {
      const dialog = event.target.closest("dialog");
      if (!dialog) return;
      event.preventDefault();
      dialog.close();
    } else if (event.target.matches("dialog")) {
      event.target.close();
    }
  });
}
