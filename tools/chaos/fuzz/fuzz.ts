// `npm run fuzz`: sends hostile input to a live edge, drawn from a seed, and then checks every
// promise.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../../infra/embedded/home.ts";
import { UsageError } from "../../../infra/runtime/command-errors.ts";
import { print, table } from "../../../infra/runtime/output.ts";
import { statusText, type Verdict, wrongWith } from "./findings.ts";
import { BODIES_A_TOKEN, oneByOne } from "./one-by-one.ts";
import { attackOf, MOST_BYTES, runAttack, type Sender } from "./senders.ts";
import { openFuzzStack, openSenders } from "./stack.ts";
import { checkDoor, fuzzStorage } from "./storage/storage-fuzz.ts";
import { storm, TENANTS } from "./storm.ts";

const USAGE = `npm run fuzz -- [--minutes N] [--seed N] [--bodies N] [--only tenant:n] [--home folder]
npm run fuzz -- --storage [--door name] [--minutes N] [--seed N] [--home folder]

Sends to the edge of the stack that runs in a folder, or of one of its own: four good tenants, and six
hostile ones who by turns attack that edge for a minute and the one beside it for 20 s, so that a good
tenant's time is compared on a machine that is as busy. Ends with a verdict for each promise; exit
code 0 when all were kept, 1 when not, 2 for a wrong call.

With --storage: sends to every public door what is dear to store, and measures what Kafka, Postgres,
ClickHouse, Redis, object storage, spools and logs keep of each byte that is sent: at most 3 at a door.
--door takes the doors whose names begin so.

Examples:
  $ npm run fuzz -- --minutes 30 --seed 7   the same seed draws the same attacks
  $ npm run fuzz -- --seed 7 --only 5:117   the 117th attack of tenant 5 alone, and its answer
  $ npm run fuzz -- --bodies 2000           hurting bodies one after the other, the slowest listed
  $ npm run fuzz -- --home .tributary       against the stack of npm start
  $ npm run fuzz -- --storage --minutes 30   every public door, and what is stored of each shape
  $ npm run fuzz -- --door links            the doors of tracking links alone, once`;

const again = async (senders: readonly Sender[], place: string, seed: number): Promise<readonly Verdict[]> => {
  const [tenant, n] = place.split(":").map(Number);
  const sender = senders.find((one) => one.n === tenant);
  if (sender === undefined || !Number.isInteger(n))
    throw new UsageError("--only takes a tenant and a number, e.g. 5:117");
  const attack = attackOf(sender, seed, n!, MOST_BYTES);
  const said = await runAttack(sender, attack);
  print(`${attack.name}\n${said[0]?.text.slice(0, 2_000) ?? ""}`);
  const wrong = wrongWith({ place, attack, said });
  return [
    {
      says: "the answer is one of those that are allowed",
      isKept: wrong === null,
      figure: wrong ?? statusText(new Map()),
    },
  ];
};

const numberOf = (option: string, text: string, most: number): number => {
  const number = Number(text);
  if (!Number.isFinite(number) || number <= 0 || number > most)
    throw new UsageError(`${option}: ${text} is not a number from 0 to ${most}`);
  return number;
};

/** Returns the exit code. */
export const fuzz = async (args: readonly string[]): Promise<number> => {
  const text = { type: "string" } as const;
  const options = {
    home: text,
    minutes: text,
    seed: text,
    bodies: text,
    only: text,
    door: text,
    storage: { type: "boolean" },
    help: { type: "boolean" },
  } as const;
  const { values } = parseArgs({ args: [...args], options });
  if (values.help === true) {
    print(USAGE);
    return 0;
  }
  const isStorage = values.storage === true || values.door !== undefined;
  checkDoor(values.door);
  // Without a time, every shape is sent once.
  const minutes = isStorage && values.minutes === undefined ? 0 : numberOf("--minutes", values.minutes ?? "5", 24 * 60);
  const seed = values.seed === undefined ? 1 + (Date.now() % 1_000_000) : numberOf("--seed", values.seed, 2 ** 31);
  const count = values.bodies === undefined ? 0 : numberOf("--bodies", values.bodies, 100_000);
  const { target, close } = await openFuzzStack(values.home ?? join(repositoryRoot(), ".tributary"), {
    isWhole: isStorage,
    // What else runs would count as growth.
    isNew: isStorage && values.home === undefined,
  });
  let closing: Promise<void> | undefined;
  const stop = (): Promise<void> => (closing ??= close());
  const leave = () => void stop().finally(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  const attack = async (): Promise<readonly Verdict[]> => {
    if (isStorage) return fuzzStorage(target, { minutes, seed, door: values.door });
    const { senders, revoke } = await openSenders(target, Math.max(TENANTS, Math.ceil(count / BODIES_A_TOKEN)));
    const verdicts =
      values.only !== undefined
        ? await again(senders, values.only, seed)
        : count > 0
          ? await oneByOne(target, senders, count, seed)
          : await storm(target, senders, { minutes, seed });
    await revoke();
    return verdicts;
  };
  try {
    const verdicts = await attack();
    print(
      table(
        ["verdict", "promise", "figure"],
        verdicts.map(({ says, isKept, figure }) => [isKept ? "kept" : "BROKEN", says, figure]),
      ),
    );
    print(`seed ${seed}`);
    return verdicts.every(({ isKept }) => isKept) ? 0 : 1;
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await stop();
  }
};
