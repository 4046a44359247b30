// Discards the dead letters of a run at its end, so that health shows the same as before.
import { placeOf } from "../../infra/kafka/kafka.ts";
import { discardLetters } from "../../modules/log/dead-letters/actions.ts";
import { listLetters } from "../../modules/log/dead-letters/letter-reads.ts";
import type { Target } from "./target.ts";

/** A header of garbage records. A stage that refuses one copies its headers into the letter. */
export const GARBAGE = "tributary-chaos";
const MOST = 10_000;

/** Returns how many. Letters of other clients and bytes of other producers stay. */
export const discardOwnLetters = async (target: Target, clients: ReadonlySet<number>): Promise<number> => {
  const { pool, kafka, wire } = target;
  const open = await listLetters(pool, { states: ["waiting", "retrying", "parked"] }, { scope: null, limit: MOST });
  const kept = await kafka.pick(open.map((letter) => letter.kept));
  const ids = open
    .filter(({ client_id: client, kept: place }) =>
      client === null ? kept.get(placeOf(place))?.headers[GARBAGE] !== undefined : clients.has(client),
    )
    .map(({ letter_id }) => letter_id);
  if (ids.length === 0) return 0;
  const producer = kafka.producer();
  try {
    const by = { actor: "chaos", reason: "made by a run of chaos, which has ended" };
    return (await discardLetters({ pool, audit: { wire, produce: producer.send } }, { ids }, by)).ids.length;
  } finally {
    await producer.close();
  }
};
