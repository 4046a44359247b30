// The spool returns acknowledged entries in order, and never again once they are marked, whichever
// byte a crash cut it at. An entry that is not stored is reported.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { LockHeld } from "../../infra/runtime/lock.ts";
import { openSpool, type Spool, SpoolFull, type SpoolSettings } from "../../infra/spool/spool.ts";
import type { OutputMessage } from "../../stream/messages.ts";

const workshop = mkdtempSync(join(tmpdir(), "spool-"));
afterAll(() => rmSync(workshop, { recursive: true, force: true }));
let folders = 0;
const fresh = (): string => {
  folders += 1;
  return join(workshop, String(folders));
};
const schemas = { notes: { type: "record", name: "Note", fields: [] } };
const opened = (folder: string, more: Partial<SpoolSettings> = {}): Promise<Spool> =>
  openSpool({ folder, schemas, ...more });
const note = (text: string): OutputMessage => ({
  topic: "notes",
  key: Buffer.from(`key of ${text}`),
  value: Buffer.from(text),
});
const textsOf = (messages: readonly OutputMessage[]): string[] => messages.map(({ value }) => value!.toString());

/** All entries of the spool. */
const drained = async (spool: Spool): Promise<string[]> => {
  const texts: string[] = [];
  while ((await spool.drain(async (messages) => void texts.push(...textsOf(messages)))) > 0);
  return texts;
};
const segmentsIn = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".spool"))
    .sort();

describe("what is appended", () => {
  test("comes back as it was, with the schemas that it was stored under", async () => {
    const spool = await opened(fresh());
    const messages: OutputMessage[] = [
      { topic: "notes", key: null, value: Buffer.from([0, 0, 0, 0, 0, 7]) },
      { topic: "others", key: "text", value: null, headers: { a: "1", b: Buffer.from([1, 2]) } },
    ];
    await spool.append(messages, "mine");
    const seen: unknown[] = [];
    await spool.drain(async (given, under) => void seen.push(given, under));
    expect(seen).toEqual([
      [
        messages[0],
        {
          topic: "others",
          key: Buffer.from("text"),
          value: null,
          headers: { a: Buffer.from("1"), b: Buffer.from([1, 2]) },
        },
      ],
      schemas,
    ]);
    await spool.close();
  });

  test("is counted by label, with its age, until it is drained", async () => {
    let now = 1_000;
    const spool = await opened(fresh(), { now: () => now });
    await spool.append([note("a"), note("b")], "clicks");
    now = 2_000;
    await spool.append([note("c")], "s2s");
    expect(spool.state()).toMatchObject({ messages: 3, byLabel: { clicks: 2, s2s: 1 }, oldestAt: 1_000 });
    await drained(spool);
    expect(spool.state()).toMatchObject({ messages: 0, bytes: 0, byLabel: {}, oldestAt: undefined, fill: 0 });
    await spool.close();
  });

  test("together shares one sync", async () => {
    const spool = await opened(fresh());
    await Promise.all(Array.from({ length: 200 }, (_, n) => spool.append([note(`${n}`)], "x")));
    expect(spool.state().syncs).toBeLessThan(5);
    expect(await drained(spool)).toEqual(Array.from({ length: 200 }, (_, n) => `${n}`));
    await spool.close();
  });

  test("beyond the bounds of messages or bytes is refused, and there is room again after draining", async () => {
    const spool = await opened(fresh(), { maxMessages: 3, maxBytes: 1_000 });
    await spool.append([note("a"), note("b")], "x");
    await expect(spool.append([note("c"), note("d")], "x")).rejects.toThrow(SpoolFull);
    await expect(spool.append([note("z".repeat(1_000))], "x")).rejects.toThrow(SpoolFull);
    expect(spool.state().fill).toBeCloseTo(2 / 3);
    expect(await drained(spool)).toEqual(["a", "b"]);
    await spool.append([note("c"), note("d")], "x");
    expect(await drained(spool)).toEqual(["c", "d"]);
    await spool.close();
  });
});

describe("draining", () => {
  test("that fails forgets nothing, and what was sent but not marked is sent again", async () => {
    const folder = fresh();
    const spool = await opened(folder);
    for (const text of ["a", "b"]) await spool.append([note(text)], "x");
    await expect(spool.drain(() => Promise.reject(new Error("away")))).rejects.toThrow("away");
    expect(spool.state().messages).toBe(2);
    expect(await drained(spool)).toEqual(["a", "b"]);
    await spool.close();
  });

  test("deletes segments that are done, and none is left when all is", async () => {
    const folder = fresh();
    const spool = await opened(folder, { segmentBytes: 100 });
    for (let n = 0; n < 10; n += 1) await spool.append([note(`${n}`)], "x");
    expect(segmentsIn(folder).length).toBeGreaterThan(3);
    expect(await drained(spool)).toHaveLength(10);
    expect(segmentsIn(folder)).toEqual([]);
    await spool.append([note("later")], "x");
    await spool.drain(async () => undefined);
    expect(segmentsIn(folder)).toEqual([]);
    await spool.close();
  });

  test("goes on while events are appended, and keeps their order", async () => {
    const spool = await opened(fresh(), { segmentBytes: 2_000 });
    const wanted: string[] = [];
    const got: string[] = [];
    const appending = (async () => {
      for (let n = 0; n < 300; n += 1) {
        wanted.push(`${n}`);
        await spool.append([note(`${n}`)], "x");
      }
    })();
    let isDone = false;
    void appending.then(() => (isDone = true));
    while (!isDone || spool.state().messages > 0) {
      await spool.drain(async (messages) => void got.push(...textsOf(messages)));
      await new Promise(setImmediate);
    }
    expect(got).toEqual(wanted);
    await spool.close();
  });

  test("a record larger than a round is drained whole", async () => {
    const spool = await opened(fresh());
    const large = "x".repeat(3_000_000);
    await spool.append([note("before")], "x");
    await spool.append([note(large), note(large)], "x");
    await spool.append([note("after")], "x");
    expect((await drained(spool)).map((text) => text.length)).toEqual([6, 3_000_000, 3_000_000, 5]);
    await spool.close();
  });
});

describe("the disk", () => {
  test("that fails is an error of the caller, and the next append goes on elsewhere", async () => {
    const folder = fresh();
    const spool = await opened(folder, { segmentBytes: 1 });
    await spool.append([note("before")], "x");
    // A folder stands where the next segment would be made.
    const inTheWay = join(folder, "000000000002.spool");
    mkdirSync(inTheWay);
    await expect(spool.append([note("lost")], "x")).rejects.toThrow(/EEXIST/);
    expect(spool.state().messages).toBe(1);
    rmSync(inTheWay, { recursive: true });
    await spool.append([note("after")], "x");
    expect(await drained(spool)).toEqual(["before", "after"]);
    await spool.close();
  });

  test("a folder is one process's at a time", async () => {
    const folder = fresh();
    const spool = await opened(folder);
    await expect(opened(folder)).rejects.toThrow(LockHeld);
    await spool.close();
    await (await opened(folder)).close();
  });

  test("the note of a process that is gone holds nothing", async () => {
    const folder = fresh();
    mkdirSync(folder);
    writeFileSync(join(folder, "lock.json"), JSON.stringify({ pid: process.pid, started: "long ago" }));
    await (await opened(folder)).close();
  });
});

test("a folder that cannot be opened costs no open files, however often it is tried", async () => {
  const folder = fresh();
  const spool = await opened(folder, { segmentBytes: 1 });
  for (const text of ["a", "b"]) await spool.append([note(text)], "x");
  await spool.close();
  mkdirSync(join(folder, "000000000003.spool"));
  const openFiles = () => readdirSync("/dev/fd").length;
  const before = openFiles();
  for (let n = 0; n < 20; n += 1) await expect(opened(folder)).rejects.toThrow(/EISDIR/);
  expect(openFiles() - before).toBeLessThan(20);
});

/** The files that a crash leaves of a folder, without the note of the holder. */
const imageOf = (folder: string): string => {
  const image = fresh();
  cpSync(folder, image, { recursive: true });
  rmSync(join(image, "lock.json"), { force: true });
  return image;
};

describe("after a crash", () => {
  test(
    "cut at every byte, with nothing, zeros or noise behind it: every record that was whole is " +
      "there, and no part of another",
    async () => {
      const folder = fresh();
      const spool = await opened(folder);
      const ends: number[] = [];
      const texts = Array.from({ length: 4 }, (_, n) => "abcdefgh".slice(0, n + 1));
      for (const text of texts) {
        await spool.append([note(text), note(`${text}'`)], "x");
        ends.push(readFileSync(join(folder, segmentsIn(folder)[0]!)).length);
      }
      const [name] = segmentsIn(folder);
      const whole = readFileSync(join(folder, name!));
      for (let cut = 0; cut <= whole.length; cut += 1) {
        const image = imageOf(folder);
        const tail = [Buffer.alloc(0), Buffer.alloc(64), Buffer.alloc(64, `noise ${cut}`)][cut % 3]!;
        writeFileSync(join(image, name!), Buffer.concat([whole.subarray(0, cut), tail]));
        const torn: number[] = [];
        const again = await opened(image, { onTorn: ({ bytes }) => torn.push(bytes) });
        const safe = ends.filter((end) => end <= cut).length;
        expect(await drained(again), `cut at ${cut}`).toEqual(
          texts.slice(0, safe).flatMap((text) => [text, `${text}'`]),
        );
        const rest = cut + tail.length - (safe === 0 ? 0 : ends[safe - 1]!);
        if (safe > 0) expect(torn).toEqual(rest === 0 ? [] : [rest]);
        await again.append([note("new")], "x");
        expect(await drained(again)).toEqual(["new"]);
        await again.close();
        rmSync(image, { recursive: true });
      }
      await spool.close();
    },
  );

  test(
    "any order of appends, drains, crashes with half an append, and restarts keeps what was " +
      "acknowledged, in order",
    async () => {
      const step = fc.oneof(
        fc.record({
          do: fc.constant("append" as const),
          sizes: fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 }),
        }),
        fc.record({ do: fc.constant("drain" as const), isMarked: fc.boolean() }),
        fc.record({ do: fc.constant("crash" as const), half: fc.uint8Array({ maxLength: 40 }) }),
        fc.record({ do: fc.constant("restart" as const) }),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 25 }),
          fc.integer({ min: 1, max: 600 }),
          async (steps, segmentBytes) => {
            let folder = fresh();
            let spool = await opened(folder, { segmentBytes });
            let expected: string[] = [];
            let serial = 0;
            for (const given of steps) {
              if (given.do === "append") {
                const texts = given.sizes.map((size, n) => `${serial + n} ${"x".repeat(size)}`);
                serial += texts.length;
                await Promise.all(texts.map((text) => spool.append([note(text)], "x")));
                expected.push(...texts);
              } else if (given.do === "drain") {
                let sent: string[] = [];
                const send = async (messages: readonly OutputMessage[]): Promise<void> => {
                  sent = textsOf(messages);
                  if (!given.isMarked) throw new Error("killed before the mark");
                };
                await spool.drain(send).catch(() => undefined);
                expect(sent).toEqual(expected.slice(0, sent.length));
                if (given.isMarked) expected = expected.slice(sent.length);
              } else if (given.do === "crash") {
                const image = imageOf(folder);
                const last = segmentsIn(image).at(-1);
                if (last !== undefined) writeFileSync(join(image, last), given.half, { flag: "a" });
                await spool.close();
                folder = image;
                spool = await opened(folder, { segmentBytes });
              } else {
                await spool.close();
                spool = await opened(folder, { segmentBytes });
              }
              expect(spool.state().messages).toBe(expected.length);
            }
            expect(await drained(spool)).toEqual(expected);
            expect(spool.state().bytes).toBe(0);
            await spool.close();
          },
        ),
        { numRuns: 60 },
      );
    },
  );

  test("a mark that is half written counts as the one before", async () => {
    const folder = fresh();
    const spool = await opened(folder, { segmentBytes: 1 });
    for (const text of ["a", "b", "c"]) await spool.append([note(text)], "x");
    await spool.drain(async () => undefined);
    const before = readFileSync(join(folder, "mark"));
    await spool.drain(async () => undefined);
    const after = readFileSync(join(folder, "mark"));
    for (let cut = 0; cut <= after.length; cut += 1) {
      const image = imageOf(folder);
      writeFileSync(join(image, "mark"), Buffer.concat([after.subarray(0, cut), before.subarray(cut)]));
      const again = await opened(image);
      // The first two segments are gone, so only the third can come back.
      expect((await drained(again)).at(-1), `cut at ${cut}`).toBe("c");
      await again.close();
    }
    await spool.close();
  });
});
