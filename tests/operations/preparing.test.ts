// Two commands of one clone prepare it together: one does the work, the others wait for it.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

const script = new URL("../../scripts/once.mjs", import.meta.url).href;
const { once } = (await import(script)) as {
  readonly once: (lock: string, isDone: () => boolean, work: () => void, wait?: number) => void;
};
const folder = mkdtempSync(join(tmpdir(), "tributary-preparing-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("four commands that are typed at once prepare once, one after the other if the first fails", async () => {
  const [lock, diary, done] = ["lock", "diary", "done"].map((name) => join(folder, name));
  writeFileSync(diary!, "");
  const program = `
    import { appendFileSync, existsSync, writeFileSync, readFileSync } from "node:fs";
    import { once } from ${JSON.stringify(script)};
    once(${JSON.stringify(lock)}, () => existsSync(${JSON.stringify(done)}), () => {
      appendFileSync(${JSON.stringify(diary)}, "began ");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      appendFileSync(${JSON.stringify(diary)}, "ended ");
      if (readFileSync(${JSON.stringify(diary)}, "utf8").length < 24) process.exit(7);
      writeFileSync(${JSON.stringify(done)}, "");
    });`;
  const codes = await Promise.all(
    Array.from(
      { length: 4 },
      () =>
        new Promise((resolve) =>
          spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "ignore" }).on("exit", resolve),
        ),
    ),
  );
  // The first exits in the middle, and its lock is that of a dead process.
  expect([...codes].sort()).toEqual([0, 0, 0, 7]);
  expect(readFileSync(diary!, "utf8")).toBe("began ended began ended ");
}, 30_000);

test("what is done already needs no lock", () => {
  const lock = join(folder, "of-a-living-process");
  writeFileSync(lock, String(process.pid));
  once(
    lock,
    () => true,
    () => expect.unreachable(),
  );
});

test("a command gives up on a process that prepares for ever, and says which one it is", () => {
  const lock = join(folder, "held");
  writeFileSync(lock, String(process.ppid));
  expect(() =>
    once(
      lock,
      () => false,
      () => expect.unreachable(),
      100,
    ),
  ).toThrow(`Process ${process.ppid} has prepared this clone`);
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  writeFileSync(lock, String(pid));
  const ran: string[] = [];
  once(
    lock,
    () => false,
    () => void ran.push("the work"),
    1_000,
  );
  expect(ran).toEqual(["the work"]);
});

test("a changed test makes no command compile, a changed source of the product does", async () => {
  const clone = join(folder, "clone");
  for (const name of ["prepare.mjs", "once.mjs", "unprepared.mjs"])
    cpSync(new URL(`../../scripts/${name}`, import.meta.url), join(clone, "scripts", name));
  for (const name of ["tests/cli", "apps/cli", "dist"]) mkdirSync(join(clone, name), { recursive: true });
  const { isCompiled, PRODUCT } = (await import(join(clone, "scripts/prepare.mjs"))) as {
    readonly isCompiled: (folders?: readonly string[]) => boolean;
    readonly PRODUCT: readonly string[];
  };
  const isFresh = () => [isCompiled(), isCompiled(PRODUCT)];
  writeFileSync(join(clone, "dist/.compiled"), String(Date.now() + 1_000));
  expect(isFresh()).toEqual([true, true]);
  const later = new Date(Date.now() + 5_000);
  for (const [name, expected] of [
    ["tests/cli/one.test.ts", [false, true]],
    ["apps/cli/one.ts", [false, false]],
  ] as const) {
    writeFileSync(join(clone, name), "");
    utimesSync(join(clone, name), later, later);
    expect(isFresh()).toEqual(expected);
  }
});

test("every program that is missing is named at once, before anything is fetched", () => {
  const clone = join(folder, "bare");
  for (const name of ["prepare.mjs", "once.mjs", "unprepared.mjs"])
    cpSync(new URL(`../../scripts/${name}`, import.meta.url), join(clone, "scripts", name));
  for (const name of ["pom.xml", "valkey.txt"]) {
    const path = `infra/embedded/services/${name}`;
    cpSync(new URL(`../../${path}`, import.meta.url), join(clone, path));
  }
  const prepared = spawnSync(process.execPath, [join(clone, "scripts/prepare.mjs")], {
    env: { PATH: join(folder, "nothing") },
    encoding: "utf8",
  });
  expect(prepared.status).toBe(1);
  expect(prepared.stderr.split("\n")).toEqual([
    expect.stringMatching(/^Java was not found: install a JDK 17 or newer/),
    expect.stringMatching(/^Maven was not found: install it/),
    "",
  ]);
});
