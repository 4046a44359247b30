// `npm run test:oracle`: compares the money with the accountant, over as many histories as asked.
import { parseArgs } from "node:util";
import { historyOf } from "./draw.ts";
import { differencesOf, printed, shrunk } from "./run-histories.ts";

const { values } = parseArgs({
  options: {
    histories: { type: "string" },
    seed: { type: "string" },
    show: { type: "string" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log(`Compares the money with an accountant who has read the rules but not the code, over random histories.
Prints each difference at its smallest, and ends with 1 if there is one.

  --histories <n>  how many (20000)
  --seed <n>       the seed of the first history; the others follow (1)
  --show <n>       how many differences are printed (3)

For example, before a change of the money lands, at low priority:
  nice -n 19 npm run --silent test:oracle -- --histories 100000 --seed 200001`);
  process.exit(0);
}
const histories = Number(values.histories ?? "20000");
const seed = Number(values.seed ?? "1");
const show = Number(values.show ?? "3");
const PACK = 200;
let differing = 0;
for (let from = 0; from < histories; from += PACK) {
  const drawn = Array.from({ length: Math.min(PACK, histories - from) }, (_, n) => historyOf(seed + from + n));
  for (const difference of await differencesOf(drawn)) {
    differing += 1;
    if (differing > show) continue;
    const { history, expected, got } = await shrunk(difference);
    console.log(`${printed(history.contracts)}\n${history.happenings.map((one) => JSON.stringify(one)).join("\n")}`);
    console.log(`expected ${printed(expected)}\ngot ${printed(got)}`);
  }
}
console.log(`seed ${seed}: ${histories} histories, ${differing} differences`);
process.exitCode = differing > 0 ? 1 : 0;
