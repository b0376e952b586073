// Everything a page needs beyond its HTML. Pages work without it; it makes them quicker to use.
import "./trusted.js";
import Alpine from "@alpinejs/csp";
import { startCopying } from "./copying.js";
import { startDrawer } from "./drawer.js";
import { startDialogs } from "./dialogs.js";
import { startExplorerLive } from "./explorer_live.js";
import { startHistogram } from "./histogram.js";
import { startInterruptedForms } from "./interrupted.js";
import { startLive } from "./live.js";
import { startMenus } from "./menus.js";
import { startPalette } from "./palette.js";
import { showTimes } from "./times.js";
import { startSnippets } from "./snippets.js";
import { settleZone } from "./zone.js";
import { marks, toast, typedName } from "./components.js";

Alpine.data("typedName", typedName);
Alpine.data("toast", toast);
Alpine.data("marks", marks);
Alpine.start();

startInterruptedForms();
startMenus();
startPalette();
startDialogs();
startDrawer();
startExplorerLive();
startHistogram();
startCopying();
startSnippets();
if (settleZone()) showTimes(document);
startLive();
document.addEventListener("htmx:after:swap", () => showTimes(document));
