// A shop for trials of a rule on its past: the stored events come from a log in this process.
import { compile } from "../../domain/conditions/evaluate.ts";
import { Subject } from "../../domain/conditions/fields.ts";
import type { ReferenceRows } from "../../domain/reference/reference.ts";
import {
  type EvaluationInput,
  type EvaluationPorts,
  evaluateRule,
  type Page,
} from "../../modules/money/trials/evaluate.ts";
import type { History, HistoryPlace, HistoryWindow, StoredEvent } from "../../sinks/analytics/history.ts";
import { pipeline } from "../../topology.ts";
import { dayMs, noon } from "./builders.ts";
import { later, type Reprocessed } from "./reprocessing.ts";
import { knowing } from "./shop.ts";

const placeOf = ({ event: { ts, event_id } }: StoredEvent): HistoryPlace => ({ ts, event_id });
const isBehind = (a: HistoryPlace, b: HistoryPlace): boolean =>
  a.ts > b.ts || (a.ts === b.ts && a.event_id > b.event_id);

/** The answers that the analytics store would give. */
const historyOf = (shop: Reprocessed): History => {
  const events = ({ from, to, event_types }: HistoryWindow): readonly StoredEvent[] =>
    [...shop.current().values()]
      .filter(({ merged_into, event }) => merged_into === null && event.t !== "refund")
      .filter(({ event }) => event.ts >= from && event.ts < to)
      .filter(({ event }) => event_types?.includes(event.custom_name ?? event.t) !== false)
      .map((row) => ({ ...row, received_at: row.event.ts }))
      .sort((a, b) => (isBehind(placeOf(a), placeOf(b)) ? 1 : -1));
  return {
    end: async (_, window, most) => {
      const found = events(window);
      const counted = found.slice(0, most);
      const last = counted.at(-1);
      return {
        times: counted.map(({ event }) => event.ts),
        last: last === undefined ? undefined : placeOf(last),
        isCut: found.length > most,
      };
    },
    matching: async (_, window, { when, rule_id, after, last, limit }) => {
      const evaluate = compile(when);
      return events(window)
        .filter((one) => !isBehind(placeOf(one), last) && (after === undefined || isBehind(placeOf(one), after)))
        .filter((one) => evaluate(new Subject(one)).matches || one.credit.rule_id === rule_id)
        .slice(0, limit);
    },
  };
};

/** All pages of a trial over the days of the shop. */
export const triedOn = async (
  shop: Reprocessed,
  today: Partial<ReferenceRows>,
  asked: Pick<EvaluationInput, "rule"> & Partial<EvaluationInput>,
): Promise<readonly Page[]> => {
  const ports: EvaluationPorts = {
    ...{ topology: pipeline, wire: shop.wire, memory: shop.memory, read: knowing(today), now: later },
    history: historyOf(shop),
  };
  const pages: Page[] = [];
  const window = { from: noon - 30 * dayMs, to: noon + 30 * dayMs };
  await evaluateRule(ports, { window, actor: "job_1", reason: "a backfill", ...asked }, async (page) => {
    pages.push(page);
    return true;
  });
  return pages;
};
