// Compares the money with an accountant who has read the rules but not the code (oracle.ts), over
// random histories and to the cent.
import { expect, test } from "vitest";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { losingMemory, writtenBy } from "../../support/losing-memory.ts";
import { historyOf } from "./draw.ts";
import { answersUnderFaults, type Faults } from "./faulty.ts";
import { found } from "./found.ts";
import { answersOfReal, type Difference, differencesOf, driven, inParts, printed, shrunk } from "./run-histories.ts";

const SEED = 1;
/** `npm run test:oracle` runs as many as it is asked for. */
const HISTORIES = 5_000;
/** This many histories share a log and its stages, each with its own clients. */
const PACK = 250;

const report = ({ history, expected, got }: Difference): string =>
  `history ${printed(history)}\nexpected ${printed(expected)}\ngot ${printed(got)}`;

test.each(Object.entries(found))("%s", async (_, history) => {
  const [difference] = await differencesOf([history]);
  expect(difference === undefined ? "" : report(difference)).toBe("");
});

test("the books agree with the accountant after every history, to the cent", async () => {
  for (let from = SEED; from < SEED + HISTORIES; from += PACK) {
    const [found] = await differencesOf(Array.from({ length: PACK }, (_, n) => historyOf(from + n)));
    if (found !== undefined)
      expect.fail(`among the seeds ${from} to ${from + PACK - 1}: ${report(await shrunk(found))}`);
  }
}, 600_000);

test("and after workers that were killed, rewound and overtaken by another owner of their partition", async () => {
  const faults: Faults = { kills: 0, rewinds: 0, overlaps: 0, repeated: 0 };
  for (let from = 100_000; from < 102_000; from += 100) {
    const histories = Array.from({ length: 100 }, (_, n) => historyOf(from + n));
    const [found] = await differencesOf(histories, await answersUnderFaults(histories, from, faults));
    if (found !== undefined) expect.fail(`among the seeds ${from} to ${from + 99}: ${report(found)}`);
  }
  for (const [fault, count] of Object.entries(faults)) expect(count, fault).toBeGreaterThan(50);
}, 600_000);

const without = (messages: readonly string[], others: readonly string[]): readonly string[] => {
  const known = new Set(others);
  return messages.filter((message) => !known.has(message));
};

test("and a rebuild of what settle remembers writes it again, in whatever order it reads the partitions", async () => {
  let taken = 0;
  for (let from = 300_000; from < 302_000; from += 100) {
    const { settings, lose } = losingMemory();
    const histories = Array.from({ length: 100 }, (_, n) => historyOf(from + n));
    const { log } = await driven(histories, 0, pipeline, settings);
    taken += log.messages(topics.claimsTaken.name).length;
    for (const order of ["backwards", "forwards"] as const) {
      const { before, again } = await writtenBy(log, [topics.conversions, topics.eventsAttributed], () => {
        lose(order);
        return log.rewind("settle");
      });
      const seeds = `among the seeds ${from} to ${from + 99}, ${order}`;
      expect(without(again, before), seeds).toEqual([]);
      // Rows of other events are written by attribute, which is not read again.
      expect(
        without(before, again).filter((message) => message.startsWith("conversions")),
        seeds,
      ).toEqual([]);
    }
  }
  expect(taken).toBeGreaterThan(50);
}, 600_000);

test.each([0, 1])(
  "and when every order of more than %i lines lies in parts, under faults too",
  async (together) => {
    const faults: Faults = { kills: 0, rewinds: 0, overlaps: 0, repeated: 0 };
    const parted = inParts(together);
    for (let from = 200_000; from < 201_000; from += 100) {
      const histories = Array.from({ length: 100 }, (_, n) => historyOf(from + n));
      const isFaulty = from % 500 === 0;
      const answers = isFaulty ? answersUnderFaults(histories, from, faults, parted) : answersOfReal(histories, parted);
      const [found] = await differencesOf(histories, await answers);
      if (found !== undefined) expect.fail(`among the seeds ${from} to ${from + 99}: ${report(found)}`);
    }
    expect(faults.kills + faults.overlaps).toBeGreaterThan(50);
  },
  600_000,
);
