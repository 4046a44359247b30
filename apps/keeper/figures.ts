// The schedules that read a figure for the metrics. While its source cannot be read, a figure is
// absent and `tributary_figure_known` is 0: unknown is not zero.
import type { Pool } from "pg";
import { letterKinds } from "../../edges/dead-letters.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import type { Schedule } from "../../infra/runtime/timing/schedule.ts";
import { waitingMails } from "../../modules/base/mails/waiting-mails.ts";
import { clientIds } from "../../modules/catalog/clients/client-ids.ts";
import { ledgerSums } from "../../modules/figures/money-days/ledger-sums.ts";
import { ledgerBalances } from "../../modules/figures/money-days/money-days.ts";
import { silentClients } from "../../modules/figures/rollups/silent-clients.ts";
import { pullAge } from "../../modules/intake/pulls/pull-health.ts";
import { type OpenLetters, openLetters } from "../../modules/log/dead-letters/letter-index.ts";
import { sinksReadAgain } from "../../modules/log/groups/read-again.ts";
import type { Topology } from "../../stream/flow.ts";

export interface FigurePorts {
  readonly pool: Pool;
  readonly clickhouse: Clickhouse;
  readonly topology: Topology;
  readonly hasMailServer: boolean;
  readonly metrics: Pick<
    Metrics,
    | "setKnown"
    | "setReadAgain"
    | "setOpenLetters"
    | "setLedgerBalances"
    | "setUnbalanced"
    | "setSilentClients"
    | "setPullAge"
    | "setMails"
  >;
}

/** Reads a figure and shows it, or that it is unknown. */
export const shown = async <T>(
  metrics: Pick<Metrics, "setKnown">,
  figure: string,
  read: () => Promise<T>,
  show: (value: T | null) => void,
): Promise<T> => {
  try {
    const value = await read();
    show(value);
    metrics.setKnown(figure, true);
    return value;
  } catch (error) {
    show(null);
    metrics.setKnown(figure, false);
    throw error;
  }
};

/** Each kind and state, also those of which none is open. */
const lettersOf = async (pool: Pool): Promise<readonly OpenLetters[]> => {
  const open = await openLetters(pool);
  return letterKinds.flatMap((kind) =>
    openStates.map(
      (state) => open.find((one) => one.kind === kind && one.state === state) ?? { kind, state, count: 0, seconds: 0 },
    ),
  );
};
const openStates: readonly OpenLetters["state"][] = ["waiting", "retrying", "parked"];

const MINUTE_MS = 60_000;

export const figures = ({ pool, clickhouse, topology, hasMailServer, metrics }: FigurePorts): readonly Schedule[] => {
  const figure = <T>(
    name: string,
    pauseMs: number,
    read: () => Promise<T>,
    show: (value: T | null) => void,
  ): Schedule => ({
    name,
    pauseMs,
    work: async () => {
      await shown(metrics, name, read, show);
      return 1;
    },
  });
  const silent = async () => (await silentClients(clickhouse, await clientIds(pool, "tributary_keeper"))).length;
  return [
    // Twice in the 20 s after which a page about late events could begin to count.
    figure("read-again", 10_000, () => sinksReadAgain(pool, topology), metrics.setReadAgain),
    figure("open-letters", 5_000, () => lettersOf(pool), metrics.setOpenLetters),
    figure("ledger-balance", MINUTE_MS, () => ledgerBalances(pool), metrics.setLedgerBalances),
    // It reads the whole ledger.
    figure(
      "ledger-sums",
      60 * MINUTE_MS,
      async () => ledgerSums(pool, await clientIds(pool, "tributary_keeper")),
      metrics.setUnbalanced,
    ),
    figure("silent-clients", MINUTE_MS, silent, metrics.setSilentClients),
    figure("pull-age", MINUTE_MS, () => pullAge(pool), metrics.setPullAge),
    figure("mails-waiting", MINUTE_MS, () => waitingMails(pool, hasMailServer), metrics.setMails),
  ];
};
