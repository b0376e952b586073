// Menus and the drawer are <details>: they open without this; here they also close.
const open = "details.menu[open], details.drawer[open]";

export function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(open)) {
      const isInside = event.target.closest(".menu-list, .drawer > .side, summary");
      if (!menu.contains(event.target) || !isInside) menu.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(open)) {
      const hadFocus = menu.contains(document.activeElement);
      menu.open = false;
      if (hadFocus) menu.querySelector("summary").focus();
    }
  });
}
