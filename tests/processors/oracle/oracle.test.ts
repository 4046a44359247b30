// The money against an accountant who has read the rules and none of the code (oracle.ts): random histories, to the cent.
import { expect, test } from "vitest";
import { historyOf } from "./draw.ts";
import { type Difference, differencesOf, printed, shrunk } from "./run-histories.ts";

const SEED = 1;
const HISTORIES = 20_000;
/** So many share a log and its stages, each with clients of its own. */
const PACK = 250;

const report = ({ history, expected, got }: Difference): string =>
  `history ${printed(history)}\nexpected ${printed(expected)}\ngot ${printed(got)}`;

test("the books agree with the accountant after every history, to the cent", async () => {
  for (let from = SEED; from < SEED + HISTORIES; from += PACK) {
    const [found] = await differencesOf(Array.from({ length: PACK }, (_, n) => historyOf(from + n)));
    if (found !== undefined)
      expect.fail(`among the seeds ${from} to ${from + PACK - 1}: ${report(await shrunk(found))}`);
  }
}, 300_000);
