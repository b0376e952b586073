// A link with data-drawer leads to a page; htmx puts its part into the drawer instead, which opens
// beside the list. Previous and next go along the links of the list.
export function startDrawer() {
  const drawer = document.getElementById("message-drawer");
  if (!drawer) return;
  let current = null;
  const links = () => [...document.querySelectorAll("a[data-drawer]")];
  const buttons = [...drawer.querySelectorAll("[data-step]")];

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-drawer]");
    if (link) current = link;
  });
  document.addEventListener("htmx:after:swap", () => {
    if (!current) return;
    const at = links().indexOf(current);
    for (const button of buttons) button.disabled = !links()[at + Number(button.dataset.step)];
    drawer.scrollTop = 0;
    if (!drawer.open) drawer.showModal();
  });
  for (const button of buttons) {
    button.addEventListener("click", () => links()[links().indexOf(current) + Number(button.dataset.step)]?.click());
  }
  drawer.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: "-1", ArrowRight: "1" }[event.key];
    if (step && !event.target.closest("pre, input, .body")) drawer.querySelector(`[data-step="${step}"]`).click();
  });
  drawer.addEventListener("close", () => {
    current?.focus();
    current = null;
  });
}
