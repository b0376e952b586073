// src/ ──▶ static/build/: one style sheet and three scripts. `make console` runs this.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, rmSync, mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = join(here, "static", "build");

// What the result is made of, but for templates: of those only the class names matter, and a test
// looks for a rule of each. mqservice/console/assets.py computes the same hash.
function sources() {
  const found = ["build.mjs", "package.json", "package-lock.json"];
  for (const entry of readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) found.push(relative(here, join(entry.parentPath ?? entry.path, entry.name)));
  }
  return found.map((name) => name.replaceAll("\\", "/")).sort((one, other) => (one < other ? -1 : 1));
}

function hash(names, base) {
  const sum = createHash("sha256");
  for (const name of names) {
    const bytes = readFileSync(join(base, name));
    sum.update(`${name}\0${bytes.length}\0`);
    sum.update(bytes);
  }
  return sum.digest("hex");
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync(
  process.execPath,
  [join(here, "node_modules/@tailwindcss/cli/dist/index.mjs"), "--input", "src/css/console.css", "--output", join(out, "console.css"), "--minify"],
  { cwd: here, stdio: ["ignore", "inherit", "pipe"] },
);
await build({
  absWorkingDir: here,
  entryPoints: ["src/js/console.js", "src/js/charts.js", "src/js/tail.js"],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "eof",
  logLevel: "warning",
});
const files = ["charts.js", "console.css", "console.js", "tail.js"];
const manifest = { sources: hash(sources(), here), files: hash(files, out) };
writeFileSync(join(out, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
