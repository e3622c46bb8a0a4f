// SPDX-License-Identifier: Apache-2.0
// The package: types, module systems, its files, and the README's program.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFile, execFileSync } = require("node:child_process");
const { promisify } = require("node:util");
const { test, skip } = require("./tap");
const { testNode } = require("..");

const PACKAGE = path.join(__dirname, "..");
const TSC_MS = 120000;
const NPM_MS = 60000;
// The sources have no types. These errors count: syntax; a name that is unknown, unused or declared
// twice; a constant that is assigned.
const LINTS = /error TS(1\d{3}|2304|2451|2588|6133|7027|2454):/;
const run = promisify(execFile);

// A folder in which "sluice" can be imported.
function project() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sluice-node-"));
  fs.mkdirSync(path.join(folder, "node_modules"));
  fs.symlinkSync(PACKAGE, path.join(folder, "node_modules", "sluice"));
  return folder;
}

// What package-lock.json names, in $SLUICE_TYPESCRIPT. It is kept between runs, because npm needs the network.
function typescript() {
  const folder =
    process.env.SLUICE_TYPESCRIPT || path.join(os.tmpdir(), `sluice-typescript-${process.getuid?.() ?? 0}`);
  const tsc = path.join(folder, "node_modules", "typescript", "bin", "tsc");
  const lock = path.join(__dirname, "package-lock.json"),
    fetched = path.join(folder, "fetched");
  const types = path.join(folder, "node_modules", "@types");
  if (fs.existsSync(fetched) && fs.readFileSync(fetched).equals(fs.readFileSync(lock))) return { tsc, types };
  try {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of ["package.json", "package-lock.json"])
      fs.copyFileSync(path.join(__dirname, name), path.join(folder, name));
    const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    execFileSync("npm", args, { cwd: folder, stdio: "ignore", timeout: NPM_MS });
    fs.copyFileSync(lock, fetched);
  } catch {
    return undefined;
  }
  return { tsc, types };
}

const found = typescript();
const TYPES = "tsc --strict accepts the types in both module systems";
const NAMES = "tsc finds no unknown or unused name in the sources";
if (!found) for (const name of [TYPES, NAMES]) skip(name, "npm cannot fetch TypeScript");
else {
  // The compiler runs beside the other tests, which mostly wait. It has the lower priority.
  const tsc = async (cwd, flags, names) => {
    const libraries = ["--target", "es2022", "--lib", "es2022", "--types", "node", "--typeRoots", found.types];
    const args = ["-n", "10", process.execPath, found.tsc, ...flags.split(" "), ...libraries, ...names];
    const { stdout } = await run("nice", args, { cwd }).catch((error) => error);
    return stdout;
  };
  const lints = async () => {
    const files = ["lib", "tests"].flatMap((folder) =>
      fs
        .readdirSync(path.join(PACKAGE, folder))
        .filter((name) => name.endsWith(".js"))
        .map((name) => path.join(folder, name)),
    );
    const flags = "--noEmit --allowJs --checkJs --noUnusedLocals --module node16 --moduleResolution node16";
    return (await tsc(PACKAGE, flags, files)).split("\n").filter((line) => LINTS.test(line));
  };
  const errors = async () => {
    const folder = project(),
      names = ["use.mts", "use.cts"];
    for (const name of names) fs.copyFileSync(path.join(__dirname, "types", "use.ts"), path.join(folder, name));
    const flags = "--strict --noEmit --exactOptionalPropertyTypes --module node16 --moduleResolution node16";
    const said = await tsc(folder, flags, names);
    fs.rmSync(folder, { recursive: true });
    return said;
  };
  const linted = lints();
  const typed = linted.then(errors); // one after the other, so that a processor stays free
  test(NAMES, async () => assert.deepEqual(await linted, []), TSC_MS);
  test(TYPES, async () => assert.equal(await typed, ""), TSC_MS);
}

test("both module systems export the same names", async () => {
  const folder = project();
  fs.writeFileSync(
    path.join(folder, "a.mjs"),
    `import * as all from "sluice"; import { createRequire } from "node:module";
    const names = Object.keys(createRequire(import.meta.url)("sluice"));
    console.log(JSON.stringify([Object.keys(all).filter((name) => name !== "default").sort(), names.sort()]));`,
  );
  const { stdout } = await run(process.execPath, [path.join(folder, "a.mjs")]);
  fs.rmSync(folder, { recursive: true });
  const [imported, required] = JSON.parse(stdout);
  assert.deepEqual(imported, required);
  const types =
    fs.readFileSync(path.join(PACKAGE, "index.d.ts"), "utf8") +
    fs.readFileSync(path.join(PACKAGE, "lib", "calls.d.ts"), "utf8");
  for (const name of required) assert.match(types, new RegExp(`export (class|function) ${name}\\b`));
});

test("the package has every file that it needs and no dependency", async () => {
  const meta = JSON.parse(fs.readFileSync(path.join(PACKAGE, "package.json"), "utf8"));
  assert.equal(meta.dependencies, undefined);
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: PACKAGE });
  const files = JSON.parse(stdout)[0].files.map((file) => file.path);
  for (const name of [
    ...fs.readdirSync(path.join(PACKAGE, "lib")).map((file) => `lib/${file}`),
    "index.mjs",
    "index.d.mts",
  ])
    assert.ok(files.includes(name), `${name} is missing`);
  assert.ok(!files.some((file) => file.startsWith("tests/")), "tests are not for users");
});

test("lines have at most 120 columns, and each file its licence", async () => {
  const folders = [PACKAGE, path.join(PACKAGE, "lib"), __dirname];
  const files = folders.flatMap((folder) =>
    fs
      .readdirSync(folder)
      .filter((name) => /\.(js|mjs|ts|mts)$/.test(name))
      .map((name) => path.join(folder, name)),
  );
  for (const file of files) {
    const lines = fs.readFileSync(file, "utf8").split("\n");
    assert.equal(lines[0], "// SPDX-License-Identifier: Apache-2.0", file);
    lines.forEach((line, i) => assert.ok(line.length <= 120, `${file}:${i + 1} has ${line.length} columns`));
  }
});

test("the programs of the README run", async () => {
  const text = fs.readFileSync(path.join(PACKAGE, "README.md"), "utf8");
  const [producer, worker] = [...text.matchAll(/```javascript\n(.*?)```/gs)].map((found) => found[1]);
  const client = await testNode();
  const folder = project();
  try {
    const env = { ...process.env, SLUICE_STORE: client.url };
    fs.writeFileSync(path.join(folder, "producer.mjs"), producer);
    fs.writeFileSync(path.join(folder, "worker.mjs"), worker);
    const working = execFile(process.execPath, [path.join(folder, "worker.mjs")], { env });
    const { stdout } = await run(process.execPath, [path.join(folder, "producer.mjs")], { env });
    assert.equal(stdout.trim(), "delivered to ann@example.org");
    working.kill("SIGTERM");
    await new Promise((resolve) => working.on("exit", resolve));
  } finally {
    await client.close();
    fs.rmSync(folder, { recursive: true });
  }
});
