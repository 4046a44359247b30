// Many histories by hand: node scripts/run.mjs tests/processors/oracle/run.js --histories 500000
// --seed 1
import { parseArgs } from "node:util";
import { historyOf } from "./draw.ts";
import { differencesOf, printed, shrunk } from "./run-histories.ts";

const { values } = parseArgs({
  options: {
    histories: { type: "string" },
    seed: { type: "string" },
    show: { type: "string" },
  },
});
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
